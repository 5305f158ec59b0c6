// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "kernels/cpu/native_precisions.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"

// Training of parts of a network: frozen parameters, rates by pattern, fixed statistics.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

const char* const deck = R"(
[model]
kind = "resnet"
depth = 18
classes = 4
[data]
kind = "random"
shape = [3, 32, 32]
[data.train]
samples = 36
[run]
log_every = 1
[train]
global_batch_size = 12
gradient_clip_norm = 5.0
[optimizer]
kind = "momentum"
weight_decay = 0.01
[schedule]
learning_rate = 0.01
[device]
threads = 1
)";

const Texts tuning = {R"(optimizer.frozen=["conv1.*", "bn1.*", "layer1.*", "layer3.0.conv2.weight"])",
                      R"(optimizer.rates=["fc.* 10"])", R"(model.fixed_statistics=["bn1", "layer[13].*"])"};

class FineTuning : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    write_file(path("deck.toml"), deck);
    const Result result = train(1, "base", {"train.steps=2"});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(const std::string& name) { return folder_->path(name); }
  static Result train(int ranks, const std::string& output, const Texts& more) {
    Texts all = {"train", path("deck.toml"), "run.output=" + path(output)};
    all.insert(all.end(), more.begin(), more.end());
    return flotilla(ranks, all);
  }
  static Result tune(int ranks, const std::string& output, const Texts& more = {}, const Texts& by = tuning) {
    Texts all = by;
    all.insert(all.end(), {"model.initial_weights=" + path("base"), "train.steps=4"});
    all.insert(all.end(), more.begin(), more.end());
    return train(ranks, output, all);
  }
  static Snapshot saved(const std::string& output, int step) {
    return read_checkpoint(path(output + "/checkpoints/" + CheckpointFolder::file_name(step)));
  }
  /// The names of parameters and statistics whose bits are those of the weights that the run began with.
  static std::set<std::string> kept(const std::string& output, int step = 4) {
    Snapshot before = saved("base", 2);
    Snapshot after = saved(output, step);
    std::set<std::string> names;
    for (const CheckpointTensor& tensor : after.tensors) {
      const auto same = std::ranges::find(before.tensors, tensor.path, &CheckpointTensor::path);
      const auto begin = std::ranges::find(after.tensors, tensor.path, &CheckpointTensor::path);
      if (same == before.tensors.end() || tensor.path.starts_with("optimizer/")) continue;
      if (std::ranges::equal(before.of(*same), after.of(*begin))) names.insert(tensor.path);
    }
    return names;
  }
  static std::set<std::string> expected() {
    std::set<std::string> names = {"parameters/conv1.weight", "parameters/bn1.weight", "parameters/bn1.bias",
                                   "parameters/layer3.0.conv2.weight"};
    for (const CheckpointTensor& tensor : saved("base", 2).tensors) {
      const bool first = tensor.path.starts_with("statistics/bn1.");
      if (tensor.path.starts_with("parameters/layer1.") || tensor.path.starts_with("statistics/layer1.") ||
          tensor.path.starts_with("statistics/layer3.") || first)
        names.insert(tensor.path);
    }
    return names;
  }
  static inline std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(FineTuning, LeavesWhatIsFrozenAndFixedAloneAndSaysWhatIsTrained) {
  const Result result = tune(2, "two");

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(kept("two"), expected());
  EXPECT_NE(result.output.find(" parameters, 46 of 62 tensors (optimizer.frozen)"), std::string::npos)
      << result.output;
  EXPECT_NE(result.output.find("learning rate × 10 for the 2 tensors fc.*"), std::string::npos);
  EXPECT_NE(result.output.find("of 10 of 20 batch norms are fixed"), std::string::npos);
  for (const CheckpointTensor& tensor : saved("two", 4).tensors)
    if (tensor.path == "optimizer/momentum/conv1.weight") {
      Snapshot state = saved("two", 4);
      EXPECT_TRUE(std::ranges::all_of(state.of(tensor), [](float value) { return value == 0.0F; }));
    }
}

TEST_F(FineTuning, IsTheSameAfterAResume) {
  ASSERT_EQ(tune(2, "whole", {"checkpoint.every=2"}).exit_code, 0);
  fs::create_directories(path("half/checkpoints"));
  fs::copy_file(path("whole/checkpoints/" + CheckpointFolder::file_name(2)),
                path("half/checkpoints/" + CheckpointFolder::file_name(2)));

  const Result resumed = tune(2, "half");
  const Result other =
      tune(2, "half", {"train.steps=6"}, {R"(optimizer.frozen=["conv1.*"])", tuning[1], tuning[2]});

  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_EQ(saved("half", 4).values, saved("whole", 4).values);
  EXPECT_EQ(other.exit_code, 2) << other.errors;
  EXPECT_NE(other.errors.find("optimizer.frozen"), std::string::npos) << other.errors;
}

TEST_F(FineTuning, KeepsTheBitsOverAveragingsOfThreeWorkers) {
  const Result result = tune(3, "local", {"strategy.kind=local-sgd", "strategy.period=2"});
  const Result again = tune(
      3, "estimated", {"strategy.kind=local-sgd", "strategy.period=2", "strategy.statistics=re-estimate"});

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(kept("local"), expected());
  EXPECT_EQ(kept("estimated"), expected());
}

TEST_F(FineTuning, IsDoneByServersButForFixedStatistics) {
  const Texts served = {"strategy.kind=parameter-server", "roles.kind=symmetric"};
  const Result sync = tune(2, "served", served, {tuning[0], tuning[1]});
  Texts geo_keys = served;
  geo_keys.insert(geo_keys.end(), {"server.mode=geo", "server.push_every=2", "train.gradient_clip_norm=0"});
  const Result geo = tune(2, "geo", geo_keys, {tuning[0], tuning[1]});
  const Result refused = tune(2, "refused", served);

  ASSERT_EQ(sync.exit_code, 0) << sync.errors;
  ASSERT_EQ(geo.exit_code, 0) << geo.errors;
  for (const std::string run : {"served", "geo"}) {
    std::set<std::string> parameters;
    for (const std::string& name : expected())
      if (name.starts_with("parameters/")) parameters.insert(name);
    EXPECT_EQ(kept(run), parameters) << run;
  }
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("model.fixed_statistics is not done with parameter servers"),
            std::string::npos)
      << refused.errors;
}

TEST_F(FineTuning, IsDoneByAllOptimizersInBfloat16AndOnTheReferenceDevice) {
  std::map<std::string, Texts> runs = {
      {"reference", {"device.kind=reference", "train.steps=1", "train.global_batch_size=2"}},
      {"lars", {"optimizer.kind=lars"}},
      {"lamb", {"optimizer.kind=lamb"}},
      {"adamw", {"optimizer.kind=adamw"}}};
  if (is_native(Precision::bfloat16)) runs["bfloat16"] = {"device.precision=bfloat16"};
  for (const auto& [name, keys] : runs) {
    const Result result = tune(1, name, keys);
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(kept(name, name == "reference" ? 1 : 4), expected()) << name;
  }
}

TEST_F(FineTuning, RefusesPatternsThatNameNothing) {
  const auto told = [](const Texts& keys) {
    const Result result = tune(2, "wrong", {"--check"}, keys);
    EXPECT_EQ(result.exit_code, 2) << result.errors;
    return result.errors;
  };
  EXPECT_NE(
      told({R"(optimizer.frozen=["layr1.*"])"})
          .find("optimizer.frozen: \"layr1.*\" names no parameter of this model; did you mean \"layer1.*\""),
      std::string::npos)
      << told({R"(optimizer.frozen=["layr1.*"])"});
  EXPECT_NE(told({R"(optimizer.rates=["head.* 10"])"}).find("optimizer.rates: \"head.*\" names no parameter"),
            std::string::npos);
  EXPECT_NE(told({R"(optimizer.rates=["fc.*"])"}).find("as \"fc.* 10\", got \"fc.*\""), std::string::npos);
  EXPECT_NE(told({R"(model.fixed_statistics=["conv1"])"}).find("names no batch norm of this model"),
            std::string::npos);
  EXPECT_NE(told({R"(optimizer.frozen=["*"])"}).find("nothing is left to train"), std::string::npos);
}

TEST_F(FineTuning, IsToldByACheck) {
  const Result result = tune(1, "check", {"--check"});

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("trains       "), std::string::npos) << result.output;
}

}  // namespace
}  // namespace flotilla::test
