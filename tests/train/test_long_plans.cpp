// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/loss_scale_rule.hpp"
#include "src/optim/schedule.hpp"
#include "src/train/run_data.hpp"

namespace flotilla {
namespace {

constexpr std::int64_t steps = 10'000'000;

struct LongPlan {
  const char* name;
  Sharding sharding;
  double warmup_epochs;
};

class LongPlans : public testing::TestWithParam<LongPlan> {};
INSTANTIATE_TEST_SUITE_P(
    Shardings, LongPlans,
    testing::Values(
        LongPlan{"imagenet", {.samples = 1'281'167, .workers = 3, .batch = 7}, 5.0},
        LongPlan{"dropped", {.samples = 60'000, .workers = 2, .batch = 32, .drop_last = true}, 0.7},
        LongPlan{"one_step_epochs", {.samples = 7, .workers = 2, .batch = 2, .drop_last = true}, 100'000.0},
        LongPlan{"clicks", {.samples = 4'195'197'692, .workers = 64, .batch = 2048, .micro_steps = 2}, 0.25}),
    [](const auto& plan) { return plan.param.name; });

TEST_P(LongPlans, EndWhereTheyAreCountedToEndAndMeetNoJump) {
  const Sharding& sharding = GetParam().sharding;
  const Sampler sampler(1, sharding);
  const TrainConfig train{.epochs = 0, .steps = steps};
  const RunEnd end = end_of(train, sharding);
  ASSERT_EQ(end.step, steps);
  ScheduleConfig config;
  config.kind = ScheduleKind::cosine;
  config.learning_rate = 0.4;
  config.final_learning_rate = 0.001;
  config.warmup_epochs = GetParam().warmup_epochs;
  const Schedule schedule(config, sharding.global_batch());

  Position position;
  double epochs = 0.0;
  double rate = schedule.at({.epochs = epochs, .total_epochs = end.epochs});
  std::int64_t batch = 0;
  for (std::int64_t step = 1; step <= steps; ++step) {
    position = sampler.after(position);
    const std::int64_t expected = batch == sharding.steps_per_epoch() ? 1 : batch + 1;
    batch = position.offset == 0 ? sharding.steps_per_epoch() : sharding.batch_before(position);
    ASSERT_EQ(batch, expected) << "step " << step;
    const double now = epochs_at(sharding, position);
    ASSERT_GT(now, epochs) << "step " << step;
    const double next = schedule.at({.epochs = now, .total_epochs = end.epochs});
    if (now <= config.warmup_epochs) {
      ASSERT_GT(next, rate) << "step " << step;
    } else if (epochs >= config.warmup_epochs) {
      ASSERT_LE(next, rate) << "step " << step;
    }
    epochs = now;
    rate = next;
  }

  EXPECT_EQ(position, sampler.after({}, steps));
  EXPECT_EQ(epochs, end.epochs);
  EXPECT_EQ(rate, config.final_learning_rate);
}

TEST_P(LongPlans, CountWhatRemainsFromAnywhereToTheirEnd) {
  const Sharding& sharding = GetParam().sharding;
  const Sampler sampler(1, sharding);
  const Position end = sampler.after({}, steps);
  const std::int64_t whole = end.epoch * sharding.steps_per_epoch();

  EXPECT_EQ(sharding.steps_until({}, end.epoch), whole);
  for (std::int64_t done = 1; done < whole; done += 999'983)
    EXPECT_EQ(sharding.steps_until(sampler.after({}, done), end.epoch), whole - done) << "after " << done;
}

TEST(LongScales, StayFiniteOverStepsThatAllGrowThem) {
  const ScaleRule rule{.dynamic = true, .growth = 2.0F, .backoff = 0.5F, .growth_every = 1};
  ScaleState state{.scale = 65536.0F};
  for (std::int64_t step = 0; step < steps; ++step) follow(rule, state, true);
  EXPECT_EQ(state.scale, 0x1p127F);
  for (std::int64_t step = 0; step < steps; ++step) follow(rule, state, false);
  EXPECT_EQ(state.scale, least_loss_scale);
  EXPECT_EQ(state.skipped, steps);
}

}  // namespace
}  // namespace flotilla
