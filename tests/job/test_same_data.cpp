// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "src/job/failure.hpp"
#include "src/job/same_on_all_ranks.hpp"

namespace flotilla {
namespace {

TEST(SameData, PassWhereAllRanksSeeAsManySamples) {
  const auto world = mpi::Communicator::world();
  const auto places = mpi::find_topology(world);

  EXPECT_NO_THROW(check_same_data(world, places, 1803, "data.train"));
}

TEST(SameData, EveryRankIsToldWhichRankSeesOthers) {
  const auto world = mpi::Communicator::world();
  const auto places = mpi::find_topology(world);
  std::string told;

  try {
    check_same_data(world, places, world.rank() == 0 ? 1803 : 1800, "data.train");
  } catch (const AgreedFailure& failure) {
    told = failure.what();
    EXPECT_EQ(failure.exit_code, 2);
  }

  EXPECT_EQ(told, "data.train has 1800 samples on rank 1 (" + places[1].host + "), but 1803 on rank 0 (" +
                      places[0].host + "); give all hosts the same files, and start when they are complete");
}

}  // namespace
}  // namespace flotilla
