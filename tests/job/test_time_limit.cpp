// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "src/job/time_limit.hpp"

namespace flotilla {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

/// A job that Slurm ends after 100 s, of which 10 are kept free.
TimeLimit slurm_after_100_s() {
  RunConfig config;
  config.stop_margin_s = 10.0;
  return {config, {.job = "7", .left_s = 100.0}, 0.0, 0};
}

TEST(SlurmDuration, IsReadAsSqueuePrintsIt) {
  EXPECT_EQ(slurm_duration_s("59:58"), 3598.0);
  EXPECT_EQ(slurm_duration_s("0:00"), 0.0);
  EXPECT_EQ(slurm_duration_s("1:02:03"), 3723.0);
  EXPECT_EQ(slurm_duration_s("2-00:00:01"), 172801.0);
  EXPECT_EQ(slurm_duration_s("30"), 1800.0);
}

TEST(SlurmDuration, IsNothingForWordsAndHalfNumbers) {
  for (const char* text :
       {"", "UNLIMITED", "NOT_SET", "INVALID", "1:", ":1", "1:2:3:4", "-1:00", "1-", "1:0x"})
    EXPECT_FALSE(slurm_duration_s(text).has_value()) << text;
}

TEST(TimeLimit, IsNeverReachedWithoutOne) {
  EXPECT_FALSE(TimeLimit().reached(INT64_MAX, {.step_s = 1e9}));
  EXPECT_FALSE(TimeLimit(RunConfig(), {}, 0.0, 0).reached(INT64_MAX, {.step_s = 1e9}));
  EXPECT_EQ(TimeLimit(RunConfig(), {.job = "7"}, 0.0, 0).text(), "");
}

TEST(TimeLimit, KeepsTheMarginBeforeSlurms) {
  const TimeLimit limit = slurm_after_100_s();

  EXPECT_FALSE(limit.reached(89 * second_ns, {}));
  EXPECT_TRUE(limit.reached(91 * second_ns, {}));
  EXPECT_EQ(limit.text(), "Slurm's, of job 7, in 1 min 40 s: saves and stops before");
}

TEST(TimeLimit, LeavesTimeForTheLastWorkerToCatchUp) {
  const TimeLimit limit = slurm_after_100_s();
  // 1.5 · (2 · 1 + 36 · 0.5) = 30
  const WorkToCome work{.step_s = 1.0, .mean_step_s = 0.5, .catch_up_steps = 36};

  EXPECT_FALSE(limit.reached(69 * second_ns, work));
  EXPECT_TRUE(limit.reached(71 * second_ns, work));
}

TEST(TimeLimit, LeavesTimeForOneAndAHalfTimesTheLongest) {
  const TimeLimit limit = slurm_after_100_s();
  // 1.5 · (2 · 4 + 3 · 2 + 1 · 6) = 30
  const WorkToCome work{
      .step_s = 4.0, .steps = 2, .save_s = 2.0, .saves = 3, .validation_s = 6.0, .validations = 1};

  EXPECT_FALSE(limit.reached(69 * second_ns, work));
  EXPECT_TRUE(limit.reached(71 * second_ns, work));
}

TEST(TimeLimit, OfTheDeckCountsFromTheStartOfTheProcess) {
  RunConfig config;
  config.time_limit_s = 60.0;
  const TimeLimit limit(config, {}, 25.0, 5 * second_ns);

  EXPECT_FALSE(limit.reached(39 * second_ns, {}));
  EXPECT_TRUE(limit.reached(41 * second_ns, {}));
  EXPECT_FALSE(limit.is_slurms(40 * second_ns));
}

TEST(TimeLimit, IsTheOneThatComesFirst) {
  RunConfig config;
  config.stop_margin_s = 10.0;
  config.time_limit_s = 50.0;
  const TimeLimit deck_first(config, {.job = "7", .left_s = 100.0}, 0.0, 0);
  const TimeLimit slurm_first(config, {.job = "7", .left_s = 55.0}, 0.0, 0);

  EXPECT_TRUE(deck_first.reached(51 * second_ns, {}));
  EXPECT_FALSE(deck_first.is_slurms(50 * second_ns));
  EXPECT_TRUE(slurm_first.reached(46 * second_ns, {}));
  EXPECT_TRUE(slurm_first.is_slurms(45 * second_ns));
}

TEST(TimeLimit, OfAYearIsNone) {
  EXPECT_EQ(TimeLimit(RunConfig(), {.job = "7", .left_s = 365.0 * 86400.0}, 0.0, 0).text(), "");
}

TEST(SlurmTime, ComesFromTheEnvironmentWhereItIs) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto now_s = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  setenv("SLURM_JOB_ID", "42", 1);
  setenv("SLURM_JOB_END_TIME", std::to_string(now_s + 1000).c_str(), 1);
  const SlurmTime ahead = slurm_time();
  setenv("SLURM_JOB_END_TIME", std::to_string(now_s - 1000).c_str(), 1);
  const SlurmTime passed = slurm_time();
  unsetenv("SLURM_JOB_ID");
  const SlurmTime elsewhere = slurm_time();

  EXPECT_EQ(ahead.job, "42");
  ASSERT_TRUE(ahead.left_s.has_value());
  EXPECT_GT(*ahead.left_s, 0.0);
  EXPECT_LE(*ahead.left_s, 1000.0);
  EXPECT_FALSE(passed.left_s.has_value());
  EXPECT_NE(passed.unknown, "");
  EXPECT_EQ(elsewhere.job, "");
  EXPECT_EQ(elsewhere.unknown, "");
}

TEST(ProcessAge, Grows) {
  const double before = process_age_s();
  usleep(50'000);

  EXPECT_GE(process_age_s(), before + 0.02);  // ticks of 10 ms
  EXPECT_LT(before, 3600.0);
}

}  // namespace
}  // namespace flotilla
