// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/loss_scale_rule.hpp"
#include "src/optim/schedule.hpp"
#include "src/train/run_data.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

// Tests the progress of a run in which workers have shares of different sizes.

/// Two workers with files of 100 and 900 samples.
Sharding two_files(std::int64_t batch, std::int64_t micro_steps = 1, bool drop_last = false) {
  return {.samples = 1000,
          .workers = 2,
          .batch = batch,
          .micro_steps = micro_steps,
          .drop_last = drop_last,
          .shares = {0, 100, 1000}};
}

std::vector<Sharding> shardings_with_shares() {
  return {two_files(100),
          two_files(100, 1, true),
          two_files(7),
          two_files(7, 3),
          two_files(7, 3, true),
          {.samples = 1000, .workers = 1, .batch = 64, .shares = {0, 1000}},
          // Coarse chunks: 3 of 100 samples for 2 workers, the last of them not full.
          {.samples = 270, .workers = 2, .batch = 8, .shares = {0, 200, 270}},
          {.samples = 1003, .workers = 4, .batch = 5, .shares = {0, 400, 600, 1000, 1003}}};
}

TEST(Epochs, PassEvenlyOverTheStepsOfTheLargestShare) {
  for (const Sharding& sharding : shardings_with_shares()) {
    const Sampler sampler(1, sharding);
    const std::int64_t steps = sharding.steps_per_epoch();
    Position position;
    for (std::int64_t step = 0; step <= 3 * steps; ++step) {
      const double whole = static_cast<double>(step / steps);
      EXPECT_TRUE(test::within_double_roundings(
          epochs_at(sharding, position),
          whole + static_cast<double>(step % steps) / static_cast<double>(steps), 4))
          << steps << " steps an epoch, after " << step;
      position = sampler.after(position);
    }
  }
}

TEST(Epochs, AreCountedInSamplesWithoutShares) {
  Sharding sharding{.samples = 1000, .workers = 3, .batch = 7};
  for (const std::int64_t offset : {0, 21, 42, 333, 987, 999}) {
    EXPECT_EQ(epochs_at(sharding, {4, offset}), 4.0 + static_cast<double>(offset) / 1000.0);
    sharding.batch = 64;  // another batch inside the epoch
    EXPECT_EQ(epochs_at(sharding, {4, offset}), 4.0 + static_cast<double>(offset) / 1000.0);
  }
}

TEST(Epochs, GoOnWithAnotherBatchInsideAnEpochAndNeverPassItsEnd) {
  for (const Sharding& before : shardings_with_shares()) {
    for (const std::int64_t batch : {1, 3, 5, 20, 50}) {
      Sharding now = before;
      now.batch = batch;
      if (now.drop_last && now.steps_per_epoch() == 0) continue;
      const Sampler old(1, before);
      const Sampler sampler(1, now);
      const auto whole = static_cast<double>(now.global_batch() * now.steps_per_epoch());
      for (std::int64_t done = 0; done < before.steps_per_epoch(); ++done) {
        Position position = old.after({2, 0}, done);
        if (now.steps_before(position) == 3 * now.steps_per_epoch()) continue;  // no such batch is left
        double last = epochs_at(now, position);
        EXPECT_TRUE(test::within_double_roundings(
            last, 2.0 + std::min(1.0, static_cast<double>(position.offset) / whole), 4));
        while (position.epoch == 2) {
          position = sampler.after(position);
          const double next = epochs_at(now, position);
          EXPECT_GE(next, last);
          EXPECT_LE(next, 3.0);
          last = next;
        }
        EXPECT_EQ(position, (Position{3, 0}));
      }
    }
  }
}

TEST(Epochs, LetALinearRateFallToItsEndAndMilestonesFireOnce) {
  ScheduleConfig linear;
  linear.kind = ScheduleKind::linear;
  linear.learning_rate = 1.0;
  ScheduleConfig steps = linear;
  steps.kind = ScheduleKind::piecewise;
  steps.milestones = {0.5, 1.0};
  steps.factor = 0.1;
  for (const Sharding& sharding : shardings_with_shares()) {
    const std::int64_t all = 2 * sharding.steps_per_epoch();
    const RunEnd end = end_of({.epochs = 2}, sharding);
    ASSERT_EQ(end.step, all);
    const Sampler sampler(1, sharding);
    Position position;
    for (std::int64_t step = 0; step < all; ++step) {
      const Progress progress{.epochs = epochs_at(sharding, position), .total_epochs = end.epochs};
      EXPECT_TRUE(test::within(Schedule(linear, 1).at(progress),
                               1.0 - static_cast<double>(step) / static_cast<double>(all),
                               16 * test::double_rounding));
      const int passed = (4 * step >= all ? 1 : 0) + (2 * step >= all ? 1 : 0);
      EXPECT_TRUE(test::within_double_roundings(Schedule(steps, 1).at(progress), std::pow(0.1, passed), 6))
          << "step " << step << " of " << all;
      position = sampler.after(position);
    }
  }
}

TEST(Epochs, CountTheStepsOfOneCycleInBatchesOfToday) {
  for (const Sharding& sharding : shardings_with_shares()) {
    const std::int64_t all = 3 * sharding.steps_per_epoch();
    const Sampler sampler(1, sharding);
    Position position;
    for (std::int64_t step = 0; step < all; ++step) {
      // A run that is cut short by train.steps decays as the whole one, also where it resumes.
      const RunEnd end = end_of({.epochs = 3, .steps = all - 1}, sharding, step, position);
      const Progress progress = progress_at(sharding, position, end, 0);
      EXPECT_EQ(progress.step, step);
      EXPECT_EQ(progress.total_steps, all);
      EXPECT_EQ(end_of({.epochs = 0, .steps = all}, sharding, step, position).decay_steps, all);
      position = sampler.after(position);
    }
  }
}

TEST(Epochs, EndWhereTheStepsOfARunWithoutEpochsEnd) {
  for (const Sharding& sharding : shardings_with_shares()) {
    const auto per_epoch = static_cast<double>(sharding.steps_per_epoch());
    const RunEnd end = end_of({.epochs = 0, .steps = 7}, sharding);
    EXPECT_TRUE(test::within_double_roundings(
        end.epochs, std::floor(7 / per_epoch) + std::fmod(7, per_epoch) / per_epoch, 4));
  }
}

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
  for (std::int64_t step = 0; step < steps; ++step) adjust_scale(rule, state, true);
  EXPECT_EQ(state.scale, 0x1p127F);
  for (std::int64_t step = 0; step < steps; ++step) adjust_scale(rule, state, false);
  EXPECT_EQ(state.scale, min_loss_scale);
  EXPECT_EQ(state.skipped, steps);
}

}  // namespace
}  // namespace flotilla
