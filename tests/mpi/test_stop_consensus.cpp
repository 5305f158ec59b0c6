// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "mpi/core/stop_consensus.hpp"
#include "tests/mpi/on_all_ranks.hpp"
#include "tests/support/allocation_count.hpp"
#include "tests/support/within.hpp"

namespace flotilla::mpi {
namespace {

/// What a run of workers came to: after how many steps each stopped, and how many meetings it had.
struct Walk {
  std::int64_t steps = 0;
  std::int64_t meetings = 0;
};

/// Workers that gather every `period` steps; `asks_after`: this one wants to stop then (never if negative).
template <class Delay>
Walk walk(const Communicator& world, std::int64_t period, std::int64_t end, std::int64_t asks_after,
          Delay delay) {
  StopConsensus consensus(world, 1);
  double sum = 0.0;
  Walk walk;
  while (walk.steps < end) {
    delay();
    if (walk.steps == asks_after) consensus.ask_to_stop();
    ++walk.steps;
    const bool meets = walk.steps % period == 0 || walk.steps == end;
    if (!meets && !(consensus.stop_requested() && consensus.must_gather(walk.steps))) continue;
    const auto mine = static_cast<double>(walk.steps);
    const bool stop = consensus.gather(walk.steps, std::span(&mine, 1), std::span(&sum, 1));
    ++walk.meetings;
    // All are here, after the same step.
    EXPECT_EQ(sum, world.size() * mine);
    if (stop) break;
  }
  return walk;
}

std::set<std::int64_t> over_all(const Communicator& world, std::int64_t value) {
  const auto values = world.all_gather(std::span<const std::int64_t>(&value, 1));
  return {values.begin(), values.end()};
}

using StopConsensusOnAllRanks = OnAllRanks;

TEST_F(StopConsensusOnAllRanks, GoesToTheEndWhereNobodyWantsToStop) {
  const Walk done = walk(world, 4, 10, -1, [] {});

  EXPECT_EQ(done.steps, 10);
  EXPECT_EQ(done.meetings, 3);
}

TEST_F(StopConsensusOnAllRanks, AddsInRankOrder) {
  // Ones that come after 2⁵⁴ are rounded away.
  for (int large = 0; large < world.size(); ++large) {
    StopConsensus consensus(world, 2);
    const std::array<double, 2> mine{world.rank() == large ? 0x1p54 : 1.0, -1.0};
    std::array<double, 2> sums{};

    consensus.gather(1, mine, sums);

    EXPECT_EQ(sums[0], static_cast<double>(large) + 0x1p54);
    EXPECT_EQ(sums[1], -world.size());
  }
}

TEST_F(StopConsensusOnAllRanks, StopsLongBeforeTheNextMeeting) {
  const std::int64_t asks_after = world.rank() == world.size() - 1 ? 20 : -1;

  const Walk stopped = walk(world, 1'000'000, 1'000'000, asks_after,
                            [] { std::this_thread::sleep_for(std::chrono::microseconds(200)); });

  const auto steps = over_all(world, stopped.steps);
  EXPECT_EQ(steps.size(), 1U);
  EXPECT_GT(*steps.begin(), 20);
  EXPECT_LT(*steps.begin(), 500'000);
  EXPECT_EQ(stopped.meetings, 1);
}

TEST_F(StopConsensusOnAllRanks, StopsAllAfterTheSameStepWhoeverAsksWheneverAndHowManyDo) {
  std::mt19937 together(7);  // the same on all
  std::mt19937 apart(static_cast<std::mt19937::result_type>(world.rank()) + 100);
  for (int round = 0; round < 300; ++round) {
    const std::int64_t period = std::array{1, 2, 3, 7, 1000}[together() % 5];
    const std::uint32_t askers = together() % 16;  // none to all of the first four ranks
    const bool asks = ((askers >> static_cast<unsigned>(world.rank())) & 1U) != 0;
    const auto asks_after = static_cast<std::int64_t>(apart() % 40);

    const Walk stopped = walk(world, period, 60, asks ? asks_after : -1, [&] {
      if (const auto chance = apart() % 8; chance == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(apart() % 300));
    });

    const bool anybody =
        !over_all(world, asks ? 1 : 0).empty() && *over_all(world, asks ? 1 : 0).rbegin() == 1;
    const auto steps = over_all(world, stopped.steps);
    ASSERT_EQ(steps.size(), 1U) << "round " << round;
    if (anybody) {
      ASSERT_LE(*steps.begin(), 60);
    } else {
      ASSERT_EQ(*steps.begin(), 60);
    }
  }
}

TEST_F(StopConsensusOnAllRanks, TellsHowLongTheLastWorkerNeedsToCatchUp) {
  StopConsensus consensus(world, 1);
  const std::int64_t done = 100 - 10 * world.rank();  // worker 0 is ahead
  consensus.ask_to_stop();

  const bool meets = consensus.must_gather(done, 0.5);

  EXPECT_EQ(meets, world.rank() == 0);
  EXPECT_TRUE(test::within_double_roundings(consensus.catch_up_s(), 5.0 * (world.size() - 1), 4));
}

TEST_F(StopConsensusOnAllRanks, StopsSoonWhereAllMeetAfterEveryStep) {
  const Walk stopped = walk(world, 1, 1'000'000, world.rank() == 0 ? 5 : -1, [] {});

  const auto steps = over_all(world, stopped.steps);
  EXPECT_EQ(steps, std::set<std::int64_t>{6});
}

TEST_F(StopConsensusOnAllRanks, AllocatesNothingInAMeeting) {
  StopConsensus consensus(world, 1);
  const double mine = 1.0;
  double sum = 0.0;
  consensus.gather(1, std::span(&mine, 1), std::span(&sum, 1));
  const std::int64_t before = test::allocations_of_this_thread();

  for (int step = 2; step < 50; step += 2) {
    EXPECT_FALSE(consensus.stop_requested());
    consensus.gather(step + 1, std::span(&mine, 1), std::span(&sum, 1));
  }

  EXPECT_EQ(test::allocations_of_this_thread() - before, 0);
}

}  // namespace
}  // namespace flotilla::mpi
