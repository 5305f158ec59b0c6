// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/allocation_count.hpp"
#include "tests/support/within.hpp"
#include "tests/train/training_run.hpp"

// Training steps of a residual network on one worker, in process.

namespace flotilla::test {
namespace {

std::unique_ptr<TrainingRun> run_of(const Texts& more, int steps) {
  auto run = std::make_unique<TrainingRun>(mpi::Communicator::world(), resnet_deck, more);
  for (int i = 0; i < steps; ++i) run->step();
  return run;
}

TEST(ResnetStep, FoldsEveryMicroStepIntoTheStatistics) {
  // A step too small to change a weight: two micro-steps of 4 then see what two steps of 4 see.
  const Texts still = {"schedule.learning_rate=1e-30"};
  const auto steps = run_of(still + Texts{"train.global_batch_size=4"}, 2);
  const auto micro_steps = run_of(still + Texts{"train.global_batch_size=8", "train.accumulate_steps=2"}, 1);

  const std::vector<float> expected = steps->statistics();
  const std::vector<float> found = micro_steps->statistics();
  for (std::size_t i = 0; i < expected.size(); ++i)
    // Two updates of three operations on either side.
    ASSERT_TRUE(within(found[i], expected[i], 12 * float_rounding * std::max(1.0F, std::abs(expected[i]))))
        << i;
}

TEST(ResnetStep, FollowsTorchsRuleOfRunningStatisticsBitByBit) {
  const auto run = run_of({}, 0);
  const auto from_zero = run_of({}, 0);
  const std::vector<float> before = run->statistics();
  from_zero->parts.machine.device->flat().fill(from_zero->parts.model.weights.statistics, 0.0F);

  run->step();
  from_zero->step();

  const std::vector<float> after = run->statistics();
  const std::vector<float> added = from_zero->statistics();
  for (std::size_t i = 0; i < after.size(); ++i) {
    volatile float kept = statistics_momentum * before[i];  // rounded before the addition
    ASSERT_EQ(after[i], kept + added[i]) << i;
  }
}

TEST(ResnetStep, KeepsItsBitsWithRecomputation) {
  const Texts dropout = {"model.dropout=0.3"};
  const auto plain = run_of(dropout, 2);
  for (const char* recompute : {"blocks", "conv1,layer2.0,layer4"}) {
    const auto again = run_of(dropout + Texts{std::string("model.recompute=") + recompute}, 2);

    EXPECT_EQ(again->parameters(), plain->parameters()) << recompute;
    EXPECT_EQ(again->statistics(), plain->statistics()) << recompute;
  }
}

TEST(ResnetStep, SumsTheMicroStepsGradientsWhereTheDeckSaysSo) {
  const Texts two = {"train.accumulate_steps=2", "optimizer.weight_decay=0"};
  const auto average = run_of(two + Texts{"train.accumulate=average", "schedule.learning_rate=0.02"}, 2);
  const auto sum = run_of(two + Texts{"train.accumulate=sum", "schedule.learning_rate=0.01"}, 2);

  // Factors of two are exact.
  EXPECT_EQ(sum->parameters(), average->parameters());
}

TEST(ResnetStep, AllocatesNothing) {
  const auto run = run_of({"model.recompute=blocks", "model.dropout=0.1", "train.accumulate_steps=2"}, 2);

  const std::int64_t before = allocations_of_this_thread();
  for (int i = 0; i < 2; ++i) run->step();

  EXPECT_EQ(allocations_of_this_thread() - before, 0);
}

}  // namespace
}  // namespace flotilla::test
