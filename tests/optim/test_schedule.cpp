// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <vector>

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
INSTANTIATE_TEST_SUITE_P(Kinds, EverySchedule,
                         testing::Values("constant", "piecewise", "cosine", "linear", "plateau"));

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

// The numbers of the next tests are those of torch.optim.lr_scheduler, PyTorch 1.13.1.
constexpr double pytorch_bound = 1e-12;

std::vector<double> one_cycle(std::int64_t steps, const ScheduleConfig& config) {
  const Schedule schedule(config, 64);
  std::vector<double> rates;
  for (std::int64_t step = 0; step < steps; ++step)
    rates.push_back(schedule.at({.step = step, .total_steps = steps}));
  return rates;
}

TEST(Schedule, OneCycleIsPyTorchsOneCycleLR) {
  ScheduleConfig config;
  config.kind = ScheduleKind::one_cycle;
  config.learning_rate = 0.1;
  const std::vector<double> twenty = {0.0040000000000000036,
                                      0.013167184270002533,
                                      0.037167184270002526,
                                      0.06683281572999747,
                                      0.09083281572999748,
                                      0.1,
                                      0.09874640062350874,
                                      0.09504846320134738,
                                      0.089091617757105,
                                      0.0811745653949763,
                                      0.07169430017913009,
                                      0.06112620219362893,
                                      0.0500002,
                                      0.03887419780637107,
                                      0.028306099820869922,
                                      0.0188258346050237,
                                      0.010908782242895003,
                                      0.004951936798652629,
                                      0.0012539993764912555,
                                      4e-07};
  const std::vector<double> three = {0.09944154354509119, 0.046263710266697504, 4e-07};
  for (const auto& expected : {twenty, three}) {
    const std::vector<double> rates = one_cycle(std::ssize(expected), config);
    for (std::size_t i = 0; i < rates.size(); ++i)
      EXPECT_TRUE(test::within(rates[i], expected[i], pytorch_bound * expected[i])) << "step " << i;
  }
  config.rise = 0.5;
  config.initial_divisor = 10.0;
  config.final_divisor = 100.0;
  const std::vector<double> thirteen = {0.009999999999999995,
                                        0.01714359102259684,
                                        0.0363063244149151,
                                        0.06140416772229783,
                                        0.08446873302753782,
                                        0.09817718381265238,
                                        0.0985485437804313,
                                        0.0874381118711465,
                                        0.06776251410777466,
                                        0.04402919282124662,
                                        0.021675165900778774,
                                        0.005821471518622171,
                                        0.0001};
  const std::vector<double> rates = one_cycle(13, config);
  for (std::size_t i = 0; i < rates.size(); ++i)
    EXPECT_TRUE(test::within(rates[i], thirteen[i], pytorch_bound * thirteen[i])) << "step " << i;
  EXPECT_EQ(Schedule(config, 64).at({.step = 14, .total_steps = 13}),
            Schedule(config, 64).at({.step = 12, .total_steps = 13}));
}

struct PlateauCase {
  bool less_is_better;
  double factor;
  double lowest;
  PlateauConfig config;
  std::vector<double> rates;  ///< Rates of PyTorch's ReduceLROnPlateau, from 0.1
};

TEST(Plateau, IsPyTorchsReduceLROnPlateauAlsoOverResumes) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> figures = {1.0, 0.9, 0.89999, 0.9, 0.9, 0.8, 0.81, nan, 0.82, 0.83, 0.7999, 0.9,
                                       0.9, 0.9, 0.9,     0.9, 0.9, 0.5, 0.6,  0.6, 0.6,  0.6,  0.6,    0.6};
  const std::vector<PlateauCase> cases = {
      {true, 0.1, 0.0, {.patience = 2}, {1e-1, 1e-1, 1e-1, 1e-1, 1e-2, 1e-2, 1e-2, 1e-2,
                                         1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-4, 1e-4, 1e-4,
                                         1e-5, 1e-5, 1e-5, 1e-5, 1e-6, 1e-6, 1e-6, 1e-7}},
      {true, 0.5, 0.01, {.patience = 1, .cooldown = 2}, {0.1,    0.1,    0.1,    0.05,   0.05,  0.05,
                                                         0.05,   0.025,  0.025,  0.025,  0.025, 0.025,
                                                         0.0125, 0.0125, 0.0125, 0.0125, 0.01,  0.01,
                                                         0.01,   0.01,   0.01,   0.01,   0.01,  0.01}},
      {true,
       0.1,
       0.0,
       {.patience = 2, .threshold = 0.02, .threshold_kind = ThresholdKind::absolute},
       {1e-1, 1e-1, 1e-1, 1e-1, 1e-2, 1e-2, 1e-2, 1e-2, 1e-3, 1e-3, 1e-3, 1e-4,
        1e-4, 1e-4, 1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 1e-6, 1e-6, 1e-6, 1e-7}},
      {false,
       0.3,
       0.0,
       {.patience = 1, .threshold = 1e-3, .cooldown = 1},
       {0.1,      0.1,      0.03,     0.03,     0.03,      0.009,     0.009,     0.009,
        0.0027,   0.0027,   0.0027,   0.00081,  0.00081,   0.00081,   0.000243,  0.000243,
        0.000243, 7.29e-05, 7.29e-05, 7.29e-05, 2.187e-05, 2.187e-05, 2.187e-05, 6.561e-06}},
      {false,
       0.1,
       0.002,
       {.patience = 0, .threshold = 0.05, .threshold_kind = ThresholdKind::absolute},
       {0.1,   0.01,  0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002,
        0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002}},
      {true, 0.01, 0.0, {.patience = 0}, {1e-1, 1e-1, 1e-3, 1e-5, 1e-7, 1e-7, 1e-9, 1e-9,
                                          1e-9, 1e-9, 1e-9, 1e-9, 1e-9, 1e-9, 1e-9, 1e-9,
                                          1e-9, 1e-9, 1e-9, 1e-9, 1e-9, 1e-9, 1e-9, 1e-9}}};
  for (const PlateauCase& each : cases) {
    ScheduleConfig config;
    config.kind = ScheduleKind::plateau;
    config.learning_rate = 0.1;
    config.factor = each.factor;
    config.final_learning_rate = each.lowest;
    config.plateau = each.config;
    const Schedule schedule(config, 64);
    Plateau whole(config.plateau, each.less_is_better, {});
    Plateau resumed = whole;
    for (std::size_t i = 0; i < figures.size(); ++i) {
      whole.add(figures[i], static_cast<std::int64_t>(i));
      resumed = Plateau(config.plateau, each.less_is_better, resumed.numbers());
      resumed.add(figures[i], static_cast<std::int64_t>(i));
      EXPECT_FALSE(resumed.add(0.0, static_cast<std::int64_t>(i))) << "a step's validation counts once";
      EXPECT_TRUE(test::within(schedule.at({.reductions = whole.reductions()}), each.rates[i],
                               pytorch_bound * each.rates[i]))
          << "case " << &each - cases.data() << ", validation " << i;
      EXPECT_EQ(resumed.numbers(), whole.numbers());
    }
  }
}

TEST(Schedule, RefusesAnUnknownKind) {
  EXPECT_THROW(Schedule(config_of("staircase"), 64), InternalError);
}

}  // namespace
}  // namespace flotilla
