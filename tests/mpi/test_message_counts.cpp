// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>

#include "mpi/core/rank_tree.hpp"
#include "mpi/core/stop_consensus.hpp"
#include "tests/mpi/on_all_ranks.hpp"
#include "tests/support/mpi_calls.hpp"

// How the messages of all ranks together grow with the number of ranks.

namespace flotilla::mpi {
namespace {

using test::mpi_calls;

class MessageCounts : public OnAllRanks {
 protected:
  /// Collective. @param sent messages of this rank
  std::int64_t over_all(std::int64_t sent, Op op = Op::sum) const {
    world.all_reduce(std::span(&sent, 1), op);
    return sent;
  }
};

TEST_F(MessageCounts, AMeetingTakesTwoForEachWorker) {
  StopConsensus consensus(world, 6);
  const std::array<double, 6> mine{};
  std::array<double, 6> sums{};
  mpi_calls() = {};

  for (std::int64_t steps = 1; steps <= 5; ++steps) consensus.gather(steps, mine, sums);

  const auto [collectives, sends, receives, gathered] = mpi_calls();
  EXPECT_EQ(collectives, 0);
  EXPECT_EQ(over_all(sends), 5 * 2 * (world.size() - 1));
  EXPECT_LE(over_all(sends, Op::max), 5 * (RankTree::max_children + 1));
}

TEST_F(MessageCounts, AStopTakesFourForEachWorker) {
  mpi_calls() = {};
  {
    StopConsensus consensus(world, 1);
    if (world.rank() == world.size() - 1) consensus.ask_to_stop();
    EXPECT_TRUE(consensus.must_gather(world.rank()) == (world.rank() == world.size() - 1));
  }

  EXPECT_EQ(over_all(mpi_calls().sends), 4 * (world.size() - 1));
}

}  // namespace
}  // namespace flotilla::mpi
