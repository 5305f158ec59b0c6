// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

namespace flotilla::mpi {

/// A rank's place in a tree over ranks 0 … n − 1 with rank 0 at its root: few neighbours, hence connections,
/// for each rank, and few levels (2 up to 1,057 ranks). A subtree holds successive ranks, its root first.
struct RankTree {
  static constexpr int max_children = 32;

  int parent = -1;  ///< −1: none
  int end = 1;      ///< The subtree is [rank, end)
  std::vector<int> children{};

  RankTree(int rank, int ranks) : end(ranks) {
    for (int root = 0;;) {
      const int step = std::max(1, (end - root - 2 + max_children) / max_children);
      if (root == rank) {
        for (int child = rank + 1; child < end; child += step) children.push_back(child);
        return;
      }
      parent = root;
      root += 1 + (rank - root - 1) / step * step;
      end = std::min(end, root + step);
    }
  }
};

}  // namespace flotilla::mpi
