// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "tests/mpi/on_all_ranks.hpp"
#include "tests/support/mpi_calls.hpp"

// The expected numbers of calls are the same for all numbers of ranks that this test is started with.

namespace flotilla::mpi {
namespace {

using test::mpi_calls;
using CallCounts = OnAllRanks;

TEST_F(CallCounts, GatheringTextsTakesTwo) {
  const std::string mine(static_cast<std::size_t>(1000 * (world.rank() % 3)),
                         static_cast<char>('a' + world.rank()));
  mpi_calls() = {};

  const std::vector<std::string> all = world.all_gather(mine);

  EXPECT_EQ(mpi_calls().collectives, 2);
  EXPECT_EQ(mpi_calls().sends + mpi_calls().receives, 0);
  for (int rank = 0; rank < world.size(); ++rank)
    EXPECT_EQ(all[static_cast<std::size_t>(rank)],
              std::string(static_cast<std::size_t>(1000 * (rank % 3)), static_cast<char>('a' + rank)));
}

TEST_F(CallCounts, GatheringOnTheRootTakesAMessageOfEachRank) {
  std::vector<float> mine(static_cast<std::size_t>(10 * world.rank() + 1));
  std::iota(mine.begin(), mine.end(), static_cast<float>(5 * world.rank() * world.rank() - 4 * world.rank()));
  mpi_calls() = {};

  const std::vector<float> all = world.gather(std::span<const float>(mine));

  EXPECT_EQ(mpi_calls().collectives, 1);
  EXPECT_EQ(mpi_calls().sends, world.is_root() ? 0 : 1);
  EXPECT_EQ(mpi_calls().receives, world.is_root() ? world.size() - 1 : 0);
  // 1 + 11 + 21 … values that count on from rank to rank.
  std::vector<float> expected(
      static_cast<std::size_t>(world.is_root() ? 5 * world.size() * world.size() - 4 * world.size() : 0));
  std::iota(expected.begin(), expected.end(), 0.0F);
  EXPECT_EQ(all, expected);
}

TEST_F(CallCounts, FindingThePlacesOfAllRanksTakesAFixedNumber) {
  mpi_calls() = {};

  const std::vector<Place> places = find_topology(world);

  EXPECT_EQ(places.size(), static_cast<std::size_t>(world.size()));
  EXPECT_LE(mpi_calls().collectives, 8);  // 7 where no rank knows its quota group
}

}  // namespace
}  // namespace flotilla::mpi
