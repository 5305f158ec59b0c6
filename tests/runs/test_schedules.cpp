// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// Schedules that follow validations or the number of steps, in whole runs.

namespace flotilla::test {
namespace {

using Texts = std::vector<std::string>;

class Schedules : public testing::Test {
 protected:
  Result train(int ranks, const std::string& name, const Texts& more) const {
    Texts all = {"train",
                 source_path("inputs/mnist_mlp.toml"),
                 "run.output=" + path(name),
                 "run.log_every=1",
                 "device.threads=1",
                 "schedule.learning_rate=0.02",
                 "train.global_batch_size=1000",
                 "train.epochs=9"};
    all.insert(all.end(), more.begin(), more.end());
    return flotilla(ranks, all);
  }
  std::string path(const std::string& name) const { return folder_.path(name); }
  std::vector<double> rates(const std::string& name) const {
    std::vector<double> found;
    for (const auto& line : metrics(path(name), "step")) found.push_back(line.at("learning_rate"));
    return found;
  }
  std::vector<float> last_values(const std::string& name) const {
    return read_checkpoint(checkpoints_in(path(name + "/checkpoints")).rbegin()->second).values;
  }

 private:
  TemporaryFolder folder_;
};

const Texts plateau = {"schedule.kind=plateau", "schedule.patience=0",    "schedule.cooldown=2",
                       "schedule.factor=0.5",   "schedule.threshold=0.2", "checkpoint.best=loss"};

TEST_F(Schedules, APlateauFollowsTheValidationsAndGoesOnInItsCooldown) {
  for (const Texts& strategy : {Texts{}, Texts{"strategy.kind=local-sgd", "strategy.period=3"}}) {
    const std::string name = strategy.empty() ? "whole" : strategy[0].substr(0, 8);
    Texts more = plateau;
    more.insert(more.end(), strategy.begin(), strategy.end());
    const Result whole = train(2, name, more);
    ASSERT_EQ(whole.exit_code, 0) << whole.errors;

    // ReduceLROnPlateau(factor=0.5, patience=0, threshold=0.2, cooldown=2), written again.
    std::vector<double> expected;
    double rate = 0.02;
    double best = 1e300;
    int cooldown = 0;
    int reductions = 0;
    std::int64_t cut = 0;  // in a cooldown
    for (const auto& validation : metrics(path(name), "validation")) {
      const auto step = validation.at("step").get<std::int64_t>();
      while (std::ssize(expected) < step) expected.push_back(rate);
      const bool better = validation.at("loss").get<double>() < best * 0.8;
      if (better) best = validation.at("loss");
      const bool counts = cooldown == 0;
      if (cooldown > 0) --cooldown;
      if (counts && !better) {
        rate *= 0.5;
        cooldown = 2;
        if (++reductions == 2) cut = step + 1;
      }
    }
    EXPECT_EQ(rates(name), expected);
    ASSERT_GE(reductions, 2);

    Texts some = more;
    some.push_back("train.steps=" + std::to_string(cut));
    ASSERT_EQ(train(2, name + "-parts", some).exit_code, 0);
    ASSERT_EQ(train(2, name + "-parts", more).exit_code, 0);
    EXPECT_EQ(rates(name + "-parts"), expected);
    EXPECT_EQ(last_values(name + "-parts"), last_values(name));
  }
}

TEST_F(Schedules, APlateauIsThatOfAllWorkersWithServersThatWaitForNone) {
  Texts more = plateau;
  more.insert(more.end(), {"strategy.kind=parameter-server", "server.mode=async", "train.epochs=4"});
  const Result result = train(2, "async", more);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_LT(rates("async").back(), 0.02);
}

TEST_F(Schedules, OneCycleEndsWithItsRunAlsoOverAResume) {
  const Texts cycle = {"schedule.kind=one-cycle", "schedule.learning_rate=0.1", "train.epochs=4",
                       "train.global_batch_size=2000"};
  ASSERT_EQ(train(2, "whole", cycle).exit_code, 0);
  const std::vector<double> whole = rates("whole");
  ASSERT_EQ(whole.size(), 20U);
  // torch.optim.lr_scheduler.OneCycleLR(max_lr=0.1, total_steps=20): its first, sixth and last rate.
  EXPECT_TRUE(within(whole[0], 0.004, 1e-6 * 0.004));
  EXPECT_TRUE(within(whole[5], 0.1, 1e-6 * 0.1));
  EXPECT_TRUE(within(whole[19], 4e-7, 1e-6 * 4e-7));
  Texts some = cycle;
  some.emplace_back("train.steps=7");
  ASSERT_EQ(train(2, "parts", some).exit_code, 0);
  ASSERT_EQ(train(2, "parts", cycle).exit_code, 0);
  EXPECT_EQ(rates("parts"), whole);
  EXPECT_EQ(last_values("parts"), last_values("whole"));
}

TEST_F(Schedules, FindRateProposesOneAndLeavesTheRunsFolderAlone) {
  for (const auto& [ranks, strategy] :
       std::vector<std::pair<int, Texts>>{{1, {}},
                                          {2, {"strategy.kind=local-sgd", "strategy.period=4"}},
                                          {3,
                                           {"strategy.kind=parameter-server", "server.mode=async",
                                            "roles.kind=ratio", "roles.servers=1"}}}) {
    Texts all = {"find-rate",
                 source_path("inputs/mnist_mlp.toml"),
                 "run.output=" + path("run"),
                 "--steps",
                 "40",
                 "--output",
                 path("curve.csv"),
                 "train.global_batch_size=100",
                 "device.threads=1"};
    all.insert(all.end(), strategy.begin(), strategy.end());
    const Result result = flotilla(ranks, all);
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_TRUE(contains(result.output, "proposal: schedule.learning_rate = ")) << result.output;
    EXPECT_TRUE(contains(read_file(path("curve.csv")), "step,learning_rate,loss,smoothed\n1,1e-06,"));
    EXPECT_FALSE(std::filesystem::exists(path("run")));
  }
  expect_told(flotilla(1, {"find-rate", source_path("inputs/mnist_mlp.toml"), "--from", "1", "--to", "0.1"}),
              "--to must be larger than --from");
}

}  // namespace
}  // namespace flotilla::test
