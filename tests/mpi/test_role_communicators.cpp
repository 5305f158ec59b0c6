// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/roles.hpp"

namespace flotilla::mpi {
namespace {

TEST(RoleCommunicators, JoinTheRanksOfARoleInTheOrderOfTheirIndices) {
  const auto world = Communicator::world();
  const std::vector<Place> places = find_topology(world);

  const RoleCommunicators roles(world,
                                assign_roles({.kind = RoleKind::user_defined, .server_ranks = "1"}, places));

  const RoleEntry& mine = roles.mine();
  EXPECT_EQ(mine.rank, world.rank());
  EXPECT_EQ(roles.is_server(), world.rank() == 1);
  EXPECT_EQ(roles.same_role().rank(), mine.index);
  EXPECT_EQ(roles.same_role().size(), roles.table().count(mine.role));
  EXPECT_EQ(roles.all().size(), world.size());
  // Servers and workers add apart.
  std::int64_t sum = world.rank();
  roles.same_role().all_reduce(std::span<std::int64_t>(&sum, 1));
  const std::int64_t all = world.size() * (world.size() - 1) / 2;
  EXPECT_EQ(sum, roles.is_server() ? 1 : all - 1);
}

TEST(RoleCommunicators, NeedTheRolesOfAllRanks) {
  const auto world = Communicator::world();

  EXPECT_THROW(RoleCommunicators(world, RoleTable{}), InternalError);
}

}  // namespace
}  // namespace flotilla::mpi
