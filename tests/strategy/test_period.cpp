// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/strategy/local_sgd/period.hpp"

namespace flotilla {
namespace {

using Lengths = std::vector<std::int64_t>;

LocalSgdConfig fixed(std::int64_t length, PeriodWarmUp warm_up = PeriodWarmUp::none) {
  return {.period = length, .warm_up = warm_up};
}

LocalSgdConfig adaptive(PeriodRule rule, std::int64_t initial) {
  return {.adaptive = true, .rule = rule, .initial_period = initial};
}

/// The steps after which a run of `steps` averages, ten steps being an epoch.
Lengths averagings(const LocalSgdConfig& config, std::int64_t steps) {
  const auto period = make_period(config, 10);
  Lengths after;
  for (std::int64_t done = 1; done <= steps; ++done) {
    if (!period->due(done)) continue;
    after.push_back(done);
    period->averaged({.steps = done, .epochs = static_cast<double>(done) / 10.0, .learning_rate = 0.1});
  }
  return after;
}

/// An averaging at the end of epoch `epoch` (1, 2, …) with the epoch's mean loss.
Period::Averaging end_of(std::int64_t epoch, double loss, double learning_rate = 0.1) {
  return {.steps = epoch * 10,
          .epochs = static_cast<double>(epoch),
          .learning_rate = learning_rate,
          .loss = loss,
          .loss_since = loss,
          .samples_since = 100.0};
}

/// The lengths after each epoch's averaging.
Lengths lengths(const LocalSgdConfig& config, const std::vector<Period::Averaging>& averagings) {
  const auto period = make_period(config, 10);
  Lengths result;
  for (const Period::Averaging& averaging : averagings) {
    period->averaged(averaging);
    result.push_back(period->length());
  }
  return result;
}

TEST(Period, IsCountedFromTheAveragingBefore) {
  EXPECT_EQ(averagings(fixed(3), 10), (Lengths{3, 6, 9}));
  EXPECT_EQ(averagings(fixed(1), 3), (Lengths{1, 2, 3}));
}

TEST(Period, BeforeTheBeginningEveryStepAverages) {
  LocalSgdConfig config = fixed(4);
  config.begin_step = 3;
  EXPECT_EQ(averagings(config, 12), (Lengths{1, 2, 3, 7, 11}));
  config.begin_step = 0;
  config.begin_epoch = 0.35;  // a step that is begun is taken
  EXPECT_EQ(averagings(config, 12), (Lengths{1, 2, 3, 4, 8, 12}));
  const auto period = make_period(config, 10);
  EXPECT_TRUE(period->before_begin(3));
  EXPECT_FALSE(period->before_begin(4));
}

TEST(Period, BeginsAtItsEpochWithOtherStepsPerEpoch) {
  LocalSgdConfig config = fixed(4);
  config.begin_epoch = 4;
  const auto period = make_period(config, 20);  // 120 steps of another number of workers were 3 epochs

  period->resume({.steps = 120, .steps_before = 60, .epochs = 3.0});

  EXPECT_TRUE(period->before_begin(139));
  EXPECT_FALSE(period->before_begin(140));
}

/// Resumed from `before`, by the same deck unless said otherwise, with as many steps per epoch.
std::unique_ptr<Period> resumed(const LocalSgdConfig& config, const Period& before, std::int64_t steps,
                                bool same_periods, bool own_state) {
  auto period = make_period(config, 10);
  period->resume({.steps = steps,
                  .steps_before = steps,
                  .epochs = static_cast<double>(steps) / 10.0,
                  .numbers = before.numbers(),
                  .same_periods = same_periods,
                  .own_state = own_state});
  return period;
}

TEST(Period, IsThatOfTheDeckWhereTheDeckChangedIt) {
  const auto before = make_period(fixed(1000), 10);
  EXPECT_EQ(resumed(fixed(5), *before, 25, false, true)->length(), 5);
  EXPECT_TRUE(resumed(fixed(5), *before, 25, false, true)->due(26)) << "none was averaged for 26 steps";
  EXPECT_FALSE(resumed(fixed(5), *before, 25, false, false)->due(29)) << "all began with one model";
  EXPECT_TRUE(resumed(fixed(5), *before, 25, false, false)->due(30));
  EXPECT_EQ(resumed(fixed(16, PeriodWarmUp::exponential), *before, 25, false, true)->length(), 4);
  EXPECT_EQ(resumed(fixed(16, PeriodWarmUp::linear), *before, 25, false, false)->length(), 6);
  EXPECT_EQ(resumed(adaptive(PeriodRule::guide, 7), *before, 25, false, false)->length(), 7);
}

TEST(Period, GoesOnWithItsLengthByTheSameDeckAlsoInAnEpochAfterItsLastAveraging) {
  const LocalSgdConfig config = fixed(64, PeriodWarmUp::exponential);
  const auto before = make_period(config, 10);
  before->averaged({.steps = 19, .epochs = 1.9});
  ASSERT_EQ(before->length(), 2);

  const auto period = resumed(config, *before, 20, true, true);

  EXPECT_EQ(period->length(), 2);
  EXPECT_TRUE(period->due(21));
}

TEST(Period, KeepsTheEpochOfItsBeginningOverOtherBatches) {
  LocalSgdConfig config = fixed(64, PeriodWarmUp::exponential);
  config.begin_step = 10;  // the end of epoch 0
  std::map<std::string, double> numbers = make_period(config, 10)->numbers();
  std::int64_t steps = 30;
  for (const std::int64_t per_epoch : {20, 5, 10}) {  // three epochs of other batches each
    const auto period = make_period(config, per_epoch);
    const std::int64_t epoch = 3 + (steps - 30) / 10;
    period->resume({.steps = steps,
                    .steps_before = epoch * per_epoch,
                    .epochs = static_cast<double>(epoch),
                    .numbers = numbers,
                    .same_periods = true,
                    .own_state = true});
    period->averaged({.steps = steps + per_epoch, .epochs = static_cast<double>(epoch) + 1.0});
    EXPECT_EQ(period->length(), std::int64_t{1} << epoch) << per_epoch;
    numbers = period->numbers();
    steps += 10;
  }
}

TEST(Period, DoesNotBeginLocalStepsAgainWhereABatchIsCoarser) {
  LocalSgdConfig config = fixed(4);
  config.begin_epoch = 1.5;
  const auto fine = make_period(config, 100);
  const auto coarse = make_period(config, 3);  // 1.52 epochs are 4 steps, and 1.5 epochs 5

  coarse->resume({.steps = 152,
                  .steps_before = 4,
                  .epochs = 1.52,
                  .numbers = fine->numbers(),
                  .same_periods = true,
                  .own_state = true});

  EXPECT_FALSE(coarse->before_begin(152));
}

TEST(Period, WarmsUpByThePowersOfTwoOnePerEpoch) {
  LocalSgdConfig config = fixed(5, PeriodWarmUp::exponential);
  config.begin_epoch = 1;
  EXPECT_EQ(lengths(config, {end_of(1, 1), end_of(2, 1), end_of(3, 1), end_of(4, 1), end_of(100, 1)}),
            (Lengths{1, 2, 4, 5, 5}));
}

TEST(Period, WarmsUpByTwoPerEpoch) {
  EXPECT_EQ(lengths(fixed(7, PeriodWarmUp::linear), {end_of(1, 1), end_of(2, 1), end_of(3, 1), end_of(4, 1)}),
            (Lengths{4, 6, 7, 7}));
  EXPECT_EQ(make_period(fixed(7, PeriodWarmUp::linear), 10)->length(), 2);
  EXPECT_EQ(make_period(fixed(1, PeriodWarmUp::linear), 10)->length(), 1);
}

TEST(AdaptivePeriod, GuideFallsWithTheLossAndRisesWhereTheRateFalls) {
  LocalSgdConfig config = adaptive(PeriodRule::guide, 8);
  config.aims.lowest_loss = 0.6;
  // F₀ − F_inf = 2: 8 √(1 / 2) = 5.66, 8 √(0.5 / 2) = 4, then with a tenth of the rate 8 √(10 · 0.2 / 2) = 8.
  EXPECT_EQ(lengths(config, {end_of(1, 2.6), end_of(2, 1.6), end_of(3, 1.1), end_of(4, 0.8, 0.01)}),
            (Lengths{8, 5, 4, 8}));
}

TEST(AdaptivePeriod, GuideIsOneAtItsLowestLossAndKeepsOffLargeJumps) {
  LocalSgdConfig config = adaptive(PeriodRule::guide, 4);
  EXPECT_EQ(lengths(config, {end_of(1, 2.6), end_of(2, 0.6), end_of(3, 0.1), end_of(4, 2.6)}),
            (Lengths{4, 1, 1, 4}));
  // 4 √100 = 40 is 36 more: the old one stays; 4 √25 = 20 is 16 more.
  EXPECT_EQ(lengths(config, {end_of(1, 2.6), end_of(2, 2.6, 0.001), end_of(3, 2.6, 0.004)}),
            (Lengths{4, 4, 20}));
}

TEST(AdaptivePeriod, GuideTakesTheMeanOfTheEpochItIsIn) {
  LocalSgdConfig config = adaptive(PeriodRule::guide, 10);
  config.aims.lowest_loss = 0.0;
  const auto period = make_period(config, 10);
  period->averaged(end_of(1, 4.0));
  period->averaged(
      {.steps = 15, .epochs = 1.5, .learning_rate = 0.1, .loss = 9, .loss_since = 1.5, .samples_since = 50});
  EXPECT_EQ(period->length(), 10);  // not before the epoch ends

  const std::string note = period->averaged(
      {.steps = 20, .epochs = 2.0, .learning_rate = 0.1, .loss = 9, .loss_since = 0.5, .samples_since = 50});

  EXPECT_EQ(period->length(), 5);  // mean 1 of 4
  EXPECT_EQ(note, "period       10 → 5 after step 20: loss 1 (at first 4), learning rate 0.1 (at first 0.1)");
}

TEST(AdaptivePeriod, TakesTheFirstLossWhereTheWarmUpEnds) {
  LocalSgdConfig config = adaptive(PeriodRule::guide, 8);
  config.aims.lowest_loss = 0.0;
  config.begin_epoch = 2;
  EXPECT_EQ(lengths(config, {end_of(1, 100.0), end_of(2, 4.0), end_of(3, 1.0)}), (Lengths{8, 8, 4}));
}

TEST(AdaptivePeriod, Fleet2HasTheInitialPeriodInsideTheRootAndLimits) {
  const LocalSgdConfig config = adaptive(PeriodRule::fleet2, 4);
  // √(0.5 / 2 · 4) = 1; √(4 · 1) = 2; √(100 · 4) = 20, at most 16; √(0 · 4) = 0, at least 1.
  EXPECT_EQ(lengths(config,
                    {end_of(1, 2.0), end_of(2, 0.5), end_of(3, 2.0), end_of(4, 2.0, 0.001), end_of(5, 0.0)}),
            (Lengths{4, 1, 2, 16, 1}));
}

TEST(AdaptivePeriod, Fleet2LooksAtEveryAveraging) {
  const auto period = make_period(adaptive(PeriodRule::fleet2, 9), 10);
  period->averaged({.steps = 1, .epochs = 0.1, .learning_rate = 0.1, .loss = 2.0});
  period->averaged({.steps = 2, .epochs = 0.2, .learning_rate = 0.1, .loss = 1.0});
  EXPECT_EQ(period->length(), 3);  // ⌈√4.5⌉
}

TEST(AdaptivePeriod, ThePapersHalvesWhatWouldNotShrink) {
  const LocalSgdConfig config = adaptive(PeriodRule::paper, 10);
  // ⌈10 √(1 / 4)⌉ = 5; ⌈10 √(0.9 / 4)⌉ = 5 would not shrink: ⌈5 / 2⌉ = 3; ⌈10 √(0.04 / 4)⌉ = 1.
  EXPECT_EQ(
      lengths(config, {end_of(1, 4.0), end_of(2, 1.0), end_of(3, 0.9), end_of(4, 0.04), end_of(5, 0.04)}),
      (Lengths{10, 5, 3, 1, 1}));
}

/// Two epochs of warm-up, in which a rule that took its first rate there would come to 1 and stay.
TEST(AdaptivePeriod, BeginsAfterTheWarmUpOfTheLearningRate) {
  const std::vector<Period::Averaging> warming = {end_of(1, 2.4, 0.001), end_of(2, 2.0, 0.05)};
  const std::vector<Period::Averaging> warm = {end_of(3, 1.8), end_of(4, 1.5), end_of(5, 1.4, 0.05),
                                               end_of(6, 1.2, 0.05)};
  for (const PeriodRule rule : {PeriodRule::guide, PeriodRule::fleet2, PeriodRule::paper}) {
    const auto after_warm_up = make_period(adaptive(rule, 8), 10, 2.0);
    const auto without = make_period(adaptive(rule, 8), 10);
    for (const Period::Averaging& averaging : warming) {
      EXPECT_EQ(after_warm_up->averaged(averaging), "") << rule;
      EXPECT_EQ(after_warm_up->length(), 8) << rule;
    }
    for (const Period::Averaging& averaging : warm) {
      after_warm_up->averaged(averaging);
      without->averaged(averaging);
      EXPECT_EQ(after_warm_up->length(), without->length()) << rule << " after epoch " << averaging.epochs;
    }
  }
}

TEST(AdaptivePeriod, KeepsItsLengthWhereTheRateIsZeroOrTheLossNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const PeriodRule rule : {PeriodRule::guide, PeriodRule::fleet2, PeriodRule::paper})
    EXPECT_EQ(lengths(adaptive(rule, 6),
                      {end_of(1, 2.0, 0.0), end_of(2, 2.0), end_of(3, 2.0, 0.0), end_of(4, nan)}),
              (Lengths{6, 6, 6, 6}))
        << rule;
}

/// An averaging after `steps` steps, of which each took a millisecond; the one before took `milliseconds`.
Period::Averaging measured(std::int64_t steps, double milliseconds) {
  return {.steps = steps, .epochs = 1.0, .averaging_s = milliseconds * 1e-3, .step_s = 1e-3};
}

TEST(ExposedPeriod, IsTheShortestThatKeepsTheShare) {
  LocalSgdConfig config = adaptive(PeriodRule::exposed, 16);
  config.aims.exposed_share = 0.1;
  // 2 / (2 + 18) is the share; nothing is known of the first averaging before it is over.
  EXPECT_EQ(lengths(config, {measured(16, 0.0), measured(32, 2.0)}), (Lengths{16, 18}));
  EXPECT_EQ(lengths(config, {measured(16, 0.1), measured(17, 0.1)}), (Lengths{1, 1}));
  EXPECT_EQ(lengths(config, {measured(16, 10.0), measured(48, 10.0), measured(112, 10.0)}),
            (Lengths{32, 64, 90}));
  // Later measurements count a quarter; 21.3 steps are a tenth more at most, 24.75 are not.
  EXPECT_EQ(lengths(config, {measured(16, 2.2), measured(36, 2.7), measured(56, 4.0)}),
            (Lengths{20, 20, 25}));
}

TEST(ExposedPeriod, KeepsItsMeasurementsInACheckpoint) {
  LocalSgdConfig config = adaptive(PeriodRule::exposed, 16);
  config.aims.exposed_share = 0.1;
  const auto before = make_period(config, 10);
  before->averaged(measured(16, 2.2));
  const auto after = resumed(config, *before, 20, true, true);
  EXPECT_EQ(after->length(), 20);
  for (Period* const period : {before.get(), after.get()}) period->averaged(measured(36, 6.2));
  EXPECT_EQ(after->numbers(), before->numbers());
  EXPECT_EQ(after->length(), 29);
  config.aims.exposed_share = 0.5;
  EXPECT_NE(period_keys(config).find("exposed_share = 0.5"), std::string::npos);
}

TEST(Period, GoesOnFromTheNumbersOfACheckpoint) {
  for (const PeriodRule rule : {PeriodRule::guide, PeriodRule::fleet2, PeriodRule::paper}) {
    const auto whole = make_period(adaptive(rule, 9), 10);
    whole->averaged(end_of(1, 4.0));
    whole->averaged(end_of(2, 1.4));
    const auto resumed = make_period(adaptive(rule, 9), 10);
    resumed->resume({.steps = 20,
                     .steps_before = 20,
                     .epochs = 2.0,
                     .numbers = whole->numbers(),
                     .same_periods = true,
                     .own_state = true});
    EXPECT_EQ(resumed->length(), whole->length());
    for (std::int64_t done = 21; done < 40; ++done) EXPECT_EQ(resumed->due(done), whole->due(done));

    whole->averaged(end_of(3, 0.9));
    resumed->averaged(end_of(3, 0.9));

    EXPECT_EQ(resumed->length(), whole->length()) << rule;
  }
}

TEST(Period, NamesItsKeysForComparisons) {
  LocalSgdConfig config = fixed(8, PeriodWarmUp::linear);
  config.begin_step = 20;
  EXPECT_EQ(period_keys(config), "period = 8, warm_up = \"linear\", begin_step = 20");
  config = adaptive(PeriodRule::guide, 4);
  config.aims.lowest_loss = 0.02;
  config.begin_epoch = 1.25;
  EXPECT_EQ(period_keys(config),
            "rule = \"guide\", initial_period = 4, lowest_loss = 0.02, begin_epoch = 1.25");
  config.rule = PeriodRule::paper;
  EXPECT_EQ(period_keys(config), "rule = \"paper\", initial_period = 4, begin_epoch = 1.25");
}

}  // namespace
}  // namespace flotilla
