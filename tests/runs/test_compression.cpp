// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"

// Compressed gradients as a user has them: interrupted, gone on with by as many or other workers.

namespace flotilla::test {
namespace {

using Texts = std::vector<std::string>;

Texts arguments(const std::string& output, int steps) {
  return {"train",
          source_path("inputs/mnist_mlp.toml"),
          "run.output=" + output,
          "device.threads=1",
          "train.global_batch_size=64",
          "run.log_every=40",
          "optimizer.kind=momentum",
          "schedule.learning_rate=0.05",
          "strategy.compression=powersgd",
          "strategy.compression_start=20",
          "strategy.compression_rank=2",
          "train.steps=" + std::to_string(steps)};
}

TEST(CompressedRuns, GiveTheBitsOfTheUninterruptedRun) {
  for (const auto& [ranks, wire] : {std::pair(1, "float32"), std::pair(2, "float32"), std::pair(2, "int8")}) {
    SCOPED_TRACE(wire);
    const TemporaryFolder folder;
    const auto train = [&, own = std::string("strategy.wire=") + wire](const std::string& run, int steps) {
      Texts all = arguments(folder.path(run), steps);
      all.push_back(own);
      const Result result = flotilla(ranks, all);
      ASSERT_EQ(result.exit_code, 0) << result.errors;
    };
    train("whole", 60);
    for (const int steps : {15, 33, 60}) train("parts", steps);

    const auto whole = final_model(folder.path("whole"));
    EXPECT_EQ(final_model(folder.path("parts")).values, whole.values) << ranks;
  }
}

TEST(CompressedRuns, GoOnWithOtherWorkersRanksAndWithout) {
  const TemporaryFolder folder;
  Texts run = arguments(folder.path("run"), 30);
  ASSERT_EQ(flotilla(2, run).exit_code, 0);
  run.back() = "train.steps=40";
  const Result fewer = flotilla(1, run);
  ASSERT_EQ(fewer.exit_code, 0) << fewer.errors;
  EXPECT_NE(fewer.output.find("the checkpoint is of 2 workers"), std::string::npos) << fewer.output;
  run.back() = "train.steps=50";
  run.emplace_back("strategy.compression_rank=3");
  ASSERT_EQ(flotilla(1, run).exit_code, 0);
  run.resize(run.size() - 5);
  run.emplace_back("train.steps=60");
  const Result plain = flotilla(2, run);
  ASSERT_EQ(plain.exit_code, 0) << plain.errors;
  Texts again = arguments(folder.path("run"), 70);
  ASSERT_EQ(flotilla(2, again).exit_code, 0);
}

TEST(CompressedRuns, RefuseARankThatMakesNothingSmaller) {
  const TemporaryFolder folder;
  Texts run = arguments(folder.path("run"), 30);
  run.emplace_back("strategy.compression_rank=400");

  const Result refused = flotilla(2, run);

  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("strategy.compression_rank = 400 halves no matrix of this model"),
            std::string::npos)
      << refused.errors;
}

}  // namespace
}  // namespace flotilla::test
