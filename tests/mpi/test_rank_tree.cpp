// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "mpi/core/rank_tree.hpp"

namespace flotilla::mpi {
namespace {

TEST(RankTree, ReachesEachRankOnceInSubtreesOfSuccessiveRanks) {
  for (const int ranks : {1, 2, 3, 8, 33, 34, 64, 65, 1000, 1057, 1058, 5000}) {
    std::vector<int> depth(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      const RankTree tree(rank, ranks);
      EXPECT_LE(tree.children.size(), static_cast<std::size_t>(RankTree::max_children));
      int next = rank + 1;
      for (const int child : tree.children) {
        const RankTree below(child, ranks);
        EXPECT_EQ(below.parent, rank);
        EXPECT_EQ(child, next);
        next = below.end;
        depth[static_cast<std::size_t>(child)] = depth[static_cast<std::size_t>(rank)] + 1;
      }
      EXPECT_EQ(next, tree.end);
    }
    EXPECT_EQ(RankTree(0, ranks).end, ranks);
    EXPECT_EQ(RankTree(0, ranks).parent, -1);
    EXPECT_LE(*std::ranges::max_element(depth), ranks <= 33 ? 1 : ranks <= 1057 ? 2 : 3) << ranks;
  }
}

}  // namespace
}  // namespace flotilla::mpi
