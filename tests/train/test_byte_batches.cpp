// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "src/train/evaluation.hpp"
#include "src/train/run_data.hpp"
#include "tests/data/byte_samples.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/data/images/image_files.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/train/plain_device.hpp"
#include "tests/train/training_run.hpp"

// Training on a device that takes images as bytes: the same bits as with floats.

namespace flotilla::test {
namespace {

/// Digits, and photographs of two classes with lists of them.
class ByteTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    save(path("images"), images(42, 6, 7));
    save(path("labels"), labels(42, 10));
    for (const char* part : {"train", "val"}) {
      std::filesystem::create_directory(path(part));
      std::string list;
      for (int i = 0; i < 13; ++i) {
        const std::string name = std::to_string(i) + (i % 2 == 0 ? ".jpg" : ".png");
        const Picture picture = busy(40 + 3 * i, 50 - i);
        save(path(std::string(part) + "/" + name), i % 2 == 0 ? jpeg(picture) : png(picture));
        list += name + " " + std::to_string(i % 2) + "\n";
      }
      save(path(std::string(part) + ".txt"), bytes(list));
    }
  }
  std::string path(const std::string& name) const { return folder.path(name); }
  std::string digits() const {
    return "[model]\nkind = \"mlp\"\nwidths = [12]\nclasses = 10\n[data]\nkind = \"idx\"\n"
           "train = {images = \"" +
           path("images") + "\", labels = \"" + path("labels") + "\"}\nvalidation = {images = \"" +
           path("images") + "\", labels = \"" + path("labels") + "\"}\n" + training;
  }
  std::string photographs(const std::string& model, int size) const {
    return "[model]\nclasses = 2\n" + model +
           "[data]\nkind = \"image-list\"\nresize_filter = \"antialias\"\n" +
           "image_size = " + std::to_string(size) + "\nshort_side = " + std::to_string(size + 2) +
           "\ntrain.path = \"" + path("train.txt") + "\"\nvalidation.path = \"" + path("val.txt") + "\"\n" +
           training;
  }
  static constexpr const char* training =
      "[train]\nsteps = 1000\nglobal_batch_size = 4\n[optimizer]\nkind = \"momentum\"\n"
      "[schedule]\nlearning_rate = 0.01\n";
  TemporaryFolder folder;
};

struct Trained {
  std::vector<float> parameters;
  std::vector<float> statistics;
  double validation_loss = 0.0;
  double validation_accuracy = 0.0;
};

Trained train(const std::string& deck, bool as_bytes, int steps) {
  TrainingRun run(mpi::Communicator::world(), deck, {"device.kind=reference"});
  RunParts& parts = run.parts;
  if (!as_bytes) {
    parts.data.validation = std::make_unique<AsFloats>(std::move(parts.data.validation));
    run.loader = make_training_loader(
        *parts.data.training,
        Sampler(static_cast<std::uint64_t>(run.deck.config.run.seed), parts.data.sharding), run.world.rank(),
        {}, {.threads = 1, .prefetch = 2, .sink = {}});
  }
  for (int i = 0; i < steps; ++i) run.step();
  EXPECT_EQ(run.loader->next().images.empty(), as_bytes);
  parts.model.evaluate_with(parts.model.weights);
  bool padded = false;
  const Evaluation evaluation =
      evaluate({parts.model.evaluator(),
                *parts.data.validation,
                {.threads = 1, .prefetch = 2, .sink = {}},
                parts.model.validation_sums.span().subspan(0, loss_sums)},
               run.world, 1, parts.config, [&](const Batch& batch) {
                 EXPECT_EQ(batch.images.empty(), as_bytes);
                 padded = padded || batch.valid < static_cast<std::int64_t>(batch.labels.size());
               });
  EXPECT_TRUE(padded);
  return {run.parameters(), run.statistics(), evaluation.loss(), evaluation.figures.at("accuracy_top1")};
}

void expect_same_bits(const std::string& deck, int steps) {
  const Trained floats = train(deck, false, steps);
  const Trained bytes = train(deck, true, steps);

  EXPECT_EQ(bytes.parameters, floats.parameters);
  EXPECT_EQ(bytes.statistics, floats.statistics);
  EXPECT_EQ(bytes.validation_loss, floats.validation_loss);
  EXPECT_EQ(bytes.validation_accuracy, floats.validation_accuracy);
}

TEST_F(ByteTraining, HasTheSameBitsOnDigits) {
  expect_same_bits(digits(), 20);
}

TEST_F(ByteTraining, HasTheSameBitsOnPhotographsThatAnMlpSeesAsRows) {
  expect_same_bits(photographs("kind = \"mlp\"\nwidths = [8]\n", 9), 20);
}

TEST_F(ByteTraining, HasTheSameBitsOnPhotographsThatAResidualNetworkSees) {
  expect_same_bits(photographs("kind = \"resnet\"\ndepth = 18\n", 16), 1);
}

class PinningMemory final : public HostMemory {
 public:
  Storage pin(std::span<float> host) const override {
    pinned += host.size();
    return {};
  }
  mutable std::size_t pinned = 0;
};

class PinningDevice final : public PlainDevice {
 public:
  PinningDevice() { info_.stages_bytes = true; }
  PinningMemory& memory() override { return memory_; }

 private:
  PinningMemory memory_;
};

TEST_F(ByteTraining, ReadsIntoMemoryThatTheDeviceLocks) {
  const auto data =
      open_dataset({}, {.given = true, .images = path("images"), .labels = path("labels")}, 10, 1);
  PinningDevice device;

  const auto loader = make_validation_loader(*data, {0, 42}, 8,
                                             loading_for(device, {.threads = 1, .prefetch = 2, .sink = {}}));

  EXPECT_EQ(device.memory().pinned, 3U * 8 * 6 * 7 / 4);
  EXPECT_EQ(loader->next().bytes.pixels.size(), 8U * 6 * 7);
}

}  // namespace
}  // namespace flotilla::test
