// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/train/checkpoints.hpp"
#include "tests/mpi/on_all_ranks.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

/// What became of a run by a clock that is not the time of day.
struct Saves {
  std::vector<std::int64_t> steps;  ///< Steps after which it saved
  std::vector<double> intervals_s;  ///< Intervals by worker 0's clock
  std::int64_t questions = 0;
};

/// @param step_s of this worker, by the number of the step
template <class StepTime>
Saves train(const mpi::Communicator& world, double every_s, std::int64_t steps, StepTime step_s) {
  std::int64_t now_ns = 5 * second_ns;
  std::int64_t saved_ns = now_ns;
  SaveClock clock(every_s, 0, now_ns);
  Saves saves;
  for (std::int64_t done = 1; done <= steps; ++done) {
    now_ns += static_cast<std::int64_t>(step_s(done) * 1e9);
    if (!clock.asks_after(done)) continue;
    ++saves.questions;
    if (!clock.ask(world, done, now_ns)) continue;
    saves.steps.push_back(done);
    saves.intervals_s.push_back(static_cast<double>(now_ns - saved_ns) * 1e-9);
    saved_ns = now_ns;
    clock.saved(now_ns);
  }
  return saves;
}

using SaveClockOnAllRanks = mpi::OnAllRanks;

TEST_F(SaveClockOnAllRanks, SavesOnTimeAndIsSeldomAsked) {
  const Saves saves = train(world, 600.0, 2'000'000, [](std::int64_t) { return 0.001; });

  ASSERT_EQ(saves.steps.size(), 3U);
  for (const double interval_s : saves.intervals_s) EXPECT_TRUE(test::within(interval_s, 600.0, 0.002));
  EXPECT_LT(saves.questions, 100);
}

TEST_F(SaveClockOnAllRanks, SaysTheSameToWorkersOfOtherPaces) {
  const double pace = 1.0 + 0.5 * world.rank();

  const Saves saves = train(world, 10.0, 5000, [&](std::int64_t) { return 0.01 * pace; });

  EXPECT_EQ(saves.steps.size(), 5U);
  const auto first = world.all_gather(std::span<const std::int64_t>(saves.steps.data(), 1));
  for (const std::int64_t step : first) EXPECT_EQ(step, saves.steps[0]);
}

TEST_F(SaveClockOnAllRanks, IsLateByTheSlowdownOfHalfTheTimeAtMost) {
  const Saves saves =
      train(world, 100.0, 30'000, [](std::int64_t step) { return step < 5000 ? 0.01 : 0.04; });

  ASSERT_GE(saves.intervals_s.size(), 2U);
  // Four times slower from half of the time on: the half of the steps that was left takes 150 s more.
  EXPECT_TRUE(test::within(saves.intervals_s[0], 100.0, 150.0));
  for (std::size_t i = 1; i < saves.intervals_s.size(); ++i)
    EXPECT_TRUE(test::within(saves.intervals_s[i], 100.0, 0.1));
}

TEST_F(SaveClockOnAllRanks, SavesAfterEachStepThatIsLongerThanTheTime) {
  const Saves saves = train(world, 1.0, 10, [](std::int64_t) { return 30.0; });

  EXPECT_EQ(saves.steps.size(), 10U);
}

}  // namespace
}  // namespace flotilla
