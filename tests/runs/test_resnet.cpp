// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <span>

#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// Residual networks in the program: what their statistics and names go through. Images are random, as small
// as a network of this kind takes them.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;

const char* const deck = R"(
[model]
kind = "resnet"
depth = 18
classes = 4
[data]
kind = "random"
shape = [3, 32, 32]
[data.train]
samples = 32
[data.validation]
samples = 10
[run]
log_every = 1
[train]
global_batch_size = 8
[optimizer]
kind = "momentum"
[schedule]
learning_rate = 0.01
)";

class Resnet : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new TemporaryFolder;
    write_file(path("deck.toml"), deck);
    const Result result = train("run", {"train.steps=4", "checkpoint.every=2", "checkpoint.per_rank=true"});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  }
  static void TearDownTestSuite() {
    delete folder;
    folder = nullptr;
  }
  static std::string path(const std::string& name) { return folder->path(name); }
  static Result train(const std::string& output, std::vector<std::string> more, int ranks = 2) {
    more.insert(more.begin(), {"train", path("deck.toml"), "run.output=" + path(output), "device.threads=1"});
    return flotilla(ranks, more);
  }
  static std::string checkpoint(int step, const std::string& sub_folder = "") {
    return path("run/checkpoints/" + sub_folder + CheckpointFolder::file_name(step));
  }
  static TemporaryFolder* folder;
};
TemporaryFolder* Resnet::folder = nullptr;

TEST_F(Resnet, GoesOnWithTheSameBitsAndStatistics) {
  fs::create_directories(path("half/checkpoints"));
  fs::copy_file(checkpoint(2), path("half/checkpoints/" + CheckpointFolder::file_name(2)));

  const Result resumed = train("half", {"train.steps=4", "model.recompute=blocks", "--verbose"});

  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_NE(resumed.output.find("recompute    saves "), std::string::npos) << resumed.output;
  const Snapshot expected = read_checkpoint(checkpoint(4));
  const Snapshot found = read_checkpoint(path("half/checkpoints/" + CheckpointFolder::file_name(4)));
  EXPECT_EQ(found.values, expected.values);
  const std::vector<double> whole = losses(path("run"));
  EXPECT_EQ(losses(path("half")), std::vector(whole.begin() + 2, whole.end()));
  const auto statistics = std::ranges::count_if(
      found.tensors, [](const CheckpointTensor& tensor) { return tensor.path.starts_with("statistics/"); });
  EXPECT_EQ(statistics, 40);
}

TEST_F(Resnet, SavesEveryRanksOwnModel) {
  const Snapshot consensus = read_checkpoint(checkpoint(4));
  for (const char* rank : {"rank-0000/", "rank-0001/"}) {
    const Snapshot own = read_checkpoint(checkpoint(4, rank));

    EXPECT_EQ(own.values, consensus.values) << rank;
    EXPECT_TRUE(fs::exists(checkpoint(2, rank))) << rank;
  }
}

TEST_F(Resnet, EvaluatesACheckpointAndItsExportAlikeOnAnyRanksAndBatches) {
  const std::string model = path("model.h5");
  const Result exported = run({FLOTILLA_EXECUTABLE, "export", path("run"), model});
  const Result one = flotilla(1, {"evaluate", path("run"), "--per-class", "validation.batch_size=8"});
  const Result three = flotilla(3, {"evaluate", model, "--per-class", "validation.batch_size=3"});

  ASSERT_EQ(exported.exit_code, 0) << exported.errors;
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  ASSERT_EQ(three.exit_code, 0) << three.errors;
  const auto from = [](const Result& result, const char* word) {
    return result.output.substr(result.output.find(word));
  };
  EXPECT_EQ(from(three, "top-1"), from(one, "top-1"));  // The table of classes is its end
  EXPECT_NE(one.output.find("   class   samples     top-1"), std::string::npos) << one.output;
  const auto trained = last_metrics(path("run"), "validation");
  const double loss = std::stod(from(one, "loss").substr(12));
  EXPECT_TRUE(test::within(trained.at("loss").get<double>(), loss, 1e-4));
}

TEST_F(Resnet, StartsFromWhatFitsOfOtherWeights) {
  const Result result =
      train("fine", {"train.steps=1", "model.classes=7", "model.initial_weights=" + checkpoint(4),
                     "schedule.learning_rate=1e-9"});

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(
      result.output.find("weights      loaded 100 of 102 tensors from " + checkpoint(4) +
                         "; left: fc.weight 4x512 in the file, 7x512 here, fc.bias 4 in the file, 7 here\n"),
      std::string::npos)
      << result.output;
  EXPECT_EQ(result.output.find("layer4.1.conv2.weight"), std::string::npos) << result.output;
  const std::string log = read_file(path("fine/log/rank-0000.log"));
  EXPECT_NE(log.find("loaded         layer4.1.conv2.weight"), std::string::npos) << log;
}

TEST_F(Resnet, RefusesAnotherNumberOfClassesNamingBoth) {
  const Result result = flotilla(2, {"evaluate", path("run"), "model.classes=7"});

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(count(result.errors, "flotilla: "), 1) << result.errors;
  EXPECT_NE(result.errors.find("holds a model of 4 classes (parameters/fc.bias), model.classes is 7"),
            std::string::npos)
      << result.errors;
}

TEST_F(Resnet, RefusesStatisticsThatAreNotFinite) {
  Snapshot snapshot = read_weights(checkpoint(4));
  for (const CheckpointTensor& tensor : snapshot.tensors)
    if (tensor.path == "statistics/layer2.0.bn1.running_var")
      snapshot.of(tensor)[3] = std::numeric_limits<float>::infinity();
  write_checkpoint_file(path("bad.h5"), snapshot);

  const Result result = train("bad", {"train.steps=1", "model.initial_weights=" + path("bad.h5")});

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("statistics/layer2.0.bn1.running_var"), std::string::npos) << result.errors;
  EXPECT_FALSE(fs::exists(path("bad")));
}

TEST_F(Resnet, NamesTheLayerThatWasNotFinite) {
  const Result result =
      train("diverged", {"train.steps=9", "schedule.learning_rate=1e30", "checkpoint.every=1"});

  EXPECT_EQ(result.exit_code, 2);
  for (const char* part : {"the output of layer1.0 is not finite on rank 0", "learning rate 1e+30",
                           "after step 2", "the last good checkpoint is"})
    EXPECT_NE(result.errors.find(part), std::string::npos) << part << "\n" << result.errors;
  for (const auto& entry : fs::directory_iterator(path("diverged/checkpoints")))
    EXPECT_NO_THROW(read_weights(entry.path().string())) << "a model that is not finite was saved";
}

TEST_F(Resnet, TellsHowTheAdaptiveRulesChangeItsPeriod) {
  for (const std::string rule : {"guide", "fleet2", "paper"}) {
    const Result result = train(rule, {"train.epochs=3", "validation.every=0", "schedule.kind=cosine",
                                       "strategy.kind=adaptive-local-sgd", "strategy.rule=" + rule,
                                       "strategy.initial_period=4", "--verbose"});

    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_NE(result.output.find("period       4 → "), std::string::npos) << rule << "\n" << result.output;
    EXPECT_NE(result.output.find(", learning rate "), std::string::npos) << rule << "\n" << result.output;
  }
}

// oneDNN's max pooling takes the largest of what is a number; nothing after it reads this channel.
TEST_F(Resnet, StopsAtANanThatTheLossDoesNotShow) {
  Snapshot snapshot = read_weights(checkpoint(4));
  for (const CheckpointTensor& tensor : snapshot.tensors) {
    const std::span<float> values = snapshot.of(tensor);
    if (tensor.path == "parameters/conv1.weight") std::fill_n(values.begin(), 3 * 7 * 7, 3e38F);
    if (tensor.path == "parameters/layer1.0.conv1.weight")
      for (std::size_t out = 0; out < 64; ++out) std::ranges::fill(values.subspan(out * 64 * 9, 9), 0.0F);
  }
  write_checkpoint_file(path("huge.h5"), snapshot);

  const Result result = train(
      "huge", {"train.steps=9", "device.convolution=direct", "model.initial_weights=" + path("huge.h5")});

  EXPECT_EQ(result.exit_code, 2);
  for (const char* part : {"a running statistic is not finite after step 1 ", "the output of conv1 is not"})
    EXPECT_NE(result.errors.find(part), std::string::npos) << part << "\n" << result.errors;
}

TEST_F(Resnet, PlansTheMemoryThatRecomputationSaves) {
  const Result result = train("none", {"train.steps=1", "model.recompute=blocks,conv1", "--check"}, 1);

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  for (const char* line : {"activations, kept", "activations, shared", "statistics", "recomputation saves"})
    EXPECT_NE(result.output.find(line), std::string::npos) << line << "\n" << result.output;
  EXPECT_FALSE(fs::exists(path("none")));
}

TEST_F(Resnet, NamesWhatCannotBeComputedAgain) {
  const Result result = train("none", {"train.steps=1", "model.recompute=layer5"});

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(count(result.errors, "flotilla: "), 1) << result.errors;
  EXPECT_NE(result.errors.find("layer5"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace flotilla::test
