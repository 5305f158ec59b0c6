// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/optim/schedule.hpp"
#include "src/train/run_data.hpp"
#include "tests/support/within.hpp"

// How far a run is where workers have shares of different sizes.

namespace flotilla {
namespace {

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

TEST(Epochs, EndWhereTheStepsOfARunWithoutEpochsEnd) {
  for (const Sharding& sharding : shardings_with_shares()) {
    const auto per_epoch = static_cast<double>(sharding.steps_per_epoch());
    const RunEnd end = end_of({.epochs = 0, .steps = 7}, sharding);
    EXPECT_TRUE(test::within_double_roundings(
        end.epochs, std::floor(7 / per_epoch) + std::fmod(7, per_epoch) / per_epoch, 4));
  }
}

}  // namespace
}  // namespace flotilla
