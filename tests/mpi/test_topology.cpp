// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "mpi/core/topology.hpp"

namespace flotilla::mpi {
namespace {

TEST(Topology, FindsOneHostHere) {
  const auto world = Communicator::world();

  const std::vector<Place> places = find_topology(world);

  ASSERT_EQ(places.size(), static_cast<std::size_t>(world.size()));
  EXPECT_EQ(hosts(places), 1);
  for (int rank = 0; rank < world.size(); ++rank) {
    const Place& place = places[static_cast<std::size_t>(rank)];
    EXPECT_EQ(place.rank, rank);
    EXPECT_EQ(place.local_rank, rank);
    EXPECT_EQ(place.host_index, 0);
    EXPECT_FALSE(place.host.empty());
    EXPECT_GE(place.cores, 1);
    EXPECT_GE(place.cores_shared_by, 1);
    EXPECT_LE(place.cores_shared_by, world.size());
  }
}

TEST(Topology, CountsHosts) {
  EXPECT_EQ(hosts({}), 0);
  EXPECT_EQ(hosts({{.rank = 0, .host_index = 0}, {.rank = 1, .host_index = 2}, {.rank = 2, .host_index = 1}}),
            3);
}

TEST(Topology, SharesCoresAmongTheRanksOnThem) {
  EXPECT_EQ(default_threads({.cores = 8, .cores_shared_by = 2}), 4);
  EXPECT_EQ(default_threads({.cores = 8, .cores_shared_by = 3}), 2);
  EXPECT_EQ(default_threads({.cores = 2, .cores_shared_by = 4}), 1);
  EXPECT_EQ(default_threads({.cores = 4, .cores_shared_by = 1}), 4);
}

}  // namespace
}  // namespace flotilla::mpi
