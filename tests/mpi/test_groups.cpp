// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/topology.hpp"

namespace flotilla::mpi {
namespace {

/// Ranks in order, each on the host given.
std::vector<Place> places_on(const std::vector<int>& hosts) {
  std::vector<Place> places;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    int before = 0;
    for (std::size_t other = 0; other < rank; ++other) before += hosts[other] == hosts[rank] ? 1 : 0;
    places.push_back({.rank = static_cast<int>(rank), .host_index = hosts[rank], .local_rank = before});
  }
  return places;
}

TEST(Groups, AreTheHostsByDefault) {
  EXPECT_EQ(cut_groups(places_on({0, 0, 1, 1, 1}), 0), (std::vector{0, 0, 1, 1, 1}));
  EXPECT_EQ(cut_groups(places_on({0, 1, 0, 1}), 0), (std::vector{0, 1, 0, 1}));
}

TEST(Groups, AreCutFromTheRanksHostByHost) {
  EXPECT_EQ(cut_groups(places_on({0, 0, 0, 0}), 2), (std::vector{0, 0, 1, 1}));
  EXPECT_EQ(cut_groups(places_on({0, 0, 0, 0, 0}), 2), (std::vector{0, 0, 1, 1, 2}));
  // Ranks placed round-robin on hosts: the groups are on the hosts all the same.
  EXPECT_EQ(cut_groups(places_on({0, 1, 0, 1, 0, 1, 0, 1}), 2), (std::vector{0, 2, 0, 2, 1, 3, 1, 3}));
  EXPECT_EQ(cut_groups(places_on({0, 1, 2}), 3), (std::vector{0, 0, 0}));
}

TEST(Groups, KnowWhetherTheyStayOnHosts) {
  const auto places = places_on({0, 0, 0, 1, 1, 1});

  EXPECT_TRUE(groups_stay_on_hosts(places, cut_groups(places, 0)));
  EXPECT_TRUE(groups_stay_on_hosts(places, cut_groups(places, 3)));
  EXPECT_TRUE(groups_stay_on_hosts(places, cut_groups(places, 1)));
  EXPECT_FALSE(groups_stay_on_hosts(places, cut_groups(places, 2)));
}

TEST(Groups, AreSubtreesIfEachIsTheNextPowerOfTwoOfRanks) {
  for (const auto& good : {std::vector{0}, std::vector{0, 1, 2}, std::vector{0, 0, 1, 1, 2},
                           std::vector{0, 0, 0}, std::vector{0, 0, 0, 0, 1}})
    EXPECT_TRUE(groups_are_subtrees(good));
  for (const auto& bad : {std::vector{0, 1, 0, 1}, std::vector{0, 0, 0, 1, 1, 1}, std::vector{0, 1, 1, 2},
                          std::vector{0, 0, 1, 2, 2}})
    EXPECT_FALSE(groups_are_subtrees(bad));
}

TEST(Groups, AreRefusedWhereTheyCannotBe) {
  EXPECT_THROW(cut_groups(places_on({0, 0}), 3), UserError);
  EXPECT_THROW(cut_groups(places_on({0, 0}), -1), UserError);
}

TEST(Groups, AreEqualWithAsManyRanksEach) {
  EXPECT_TRUE(groups_are_equal({0, 0, 1, 1}));
  EXPECT_TRUE(groups_are_equal({0, 1, 0, 1}));
  EXPECT_TRUE(groups_are_equal({0}));
  EXPECT_FALSE(groups_are_equal({0, 0, 1}));
  EXPECT_FALSE(groups_are_equal({0, 0, 0, 1}));
}

}  // namespace
}  // namespace flotilla::mpi
