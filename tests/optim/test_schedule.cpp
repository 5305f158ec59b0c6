// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "src/optim/schedule.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

constexpr double total = 90.0;

ScheduleConfig config_of(const char* kind) {
  ScheduleConfig config;
  config.kind = choice<ScheduleKind>(kind);
  config.learning_rate = 0.4;
  config.warmup_epochs = 5.0;
  config.warmup_from = 0.1;
  config.milestones = {30.0, 60.0, 80.0};
  config.factor = 0.1;
  config.final_learning_rate = 0.001;
  return config;
}

double rate(const Schedule& schedule, double epochs) {
  return schedule.at({.epochs = epochs, .total_epochs = total});
}

class EverySchedule : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, EverySchedule, testing::Values("constant", "piecewise", "cosine", "linear"));

TEST_P(EverySchedule, WarmsUpLinearlyFromWarmupFromToTheBase) {
  const Schedule schedule(config_of(GetParam()), 64);

  EXPECT_EQ(rate(schedule, 0.0), 0.1);
  EXPECT_EQ(rate(schedule, 2.5), 0.25);
  EXPECT_EQ(rate(schedule, 5.0), 0.4);
  EXPECT_TRUE(test::within(rate(schedule, 5.0 - 1e-9), rate(schedule, 5.0), 1e-9));
}

TEST_P(EverySchedule, NeverRisesAfterTheWarmUp) {
  const Schedule schedule(config_of(GetParam()), 64);

  for (double epochs = 5.0; epochs < total; epochs += 0.25) {
    EXPECT_LE(rate(schedule, epochs + 0.25), rate(schedule, epochs)) << "at " << epochs;
  }
}

TEST_P(EverySchedule, StartsAtTheBaseWithoutWarmUp) {
  ScheduleConfig config = config_of(GetParam());
  config.warmup_epochs = 0.0;

  EXPECT_EQ(rate(Schedule(config, 64), 0.0), 0.4);
}

TEST_P(EverySchedule, KeepsTheBaseWhereTheRunEndsWithTheWarmUp) {
  const Schedule schedule(config_of(GetParam()), 64);

  EXPECT_EQ(schedule.at({.epochs = 5.0, .total_epochs = 5.0}), 0.4);
}

TEST_P(EverySchedule, ScalesTheBaseButNotTheStartOfTheWarmUpWithTheGlobalBatch) {
  ScheduleConfig config = config_of(GetParam());
  config.scale_with_batch = true;

  const Schedule schedule(config, 1024);

  EXPECT_EQ(schedule.base(), 1.6);
  EXPECT_EQ(rate(schedule, 0.0), 0.1);
  EXPECT_EQ(rate(schedule, 5.0), 1.6);
}

TEST(Schedule, ConstantStaysAtTheBase) {
  EXPECT_EQ(rate(Schedule(config_of("constant"), 64), 89.9), 0.4);
}

TEST(Schedule, PiecewiseDropsAtEachMilestone) {
  const Schedule schedule(config_of("piecewise"), 64);

  // A product and a rounded factor for each milestone.
  EXPECT_EQ(rate(schedule, 29.999), 0.4);
  EXPECT_TRUE(test::within_double_roundings(rate(schedule, 30.0), 0.04, 8));
  EXPECT_TRUE(test::within_double_roundings(rate(schedule, 60.0), 0.004, 8));
  EXPECT_TRUE(test::within_double_roundings(rate(schedule, 89.0), 0.0004, 8));
}

TEST(Schedule, CosineIsHalfwayInTheMiddleAndReachesItsEndExactly) {
  const Schedule schedule(config_of("cosine"), 64);

  EXPECT_TRUE(test::within_double_roundings(rate(schedule, 47.5), (0.4 + 0.001) / 2.0, 8));
  EXPECT_EQ(rate(schedule, total), 0.001);
  EXPECT_EQ(rate(schedule, total + 1.0), 0.001);
}

TEST(Schedule, LinearIsAStraightLineToItsEnd) {
  const Schedule schedule(config_of("linear"), 64);

  EXPECT_TRUE(test::within_double_roundings(rate(schedule, 5.0 + 85.0 / 4.0), 0.75 * 0.4 + 0.25 * 0.001, 8));
  EXPECT_EQ(rate(schedule, total), 0.001);
}

TEST(Schedule, RefusesAnUnknownKind) {
  EXPECT_THROW(Schedule(config_of("staircase"), 64), InternalError);
}

}  // namespace
}  // namespace flotilla
