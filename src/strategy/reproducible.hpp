// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device.hpp"
#include "src/config/config.hpp"

namespace flotilla {

// run.reproducible: a step's samples are cut into run.virtual_shards shards, each a micro-step of some
// worker. Their gradients and sums are added in one binary tree over the shards, cut at the largest power of
// two below their number. A worker's shards are a subtree, added here; the all-reduce adds the workers' sums
// in the rest of the tree (mpi/all_reduce/sum_arrays.hpp). So results do not depend on the number of workers.

/// Adds a worker's shards one after another, with as many partial sums as the number of shards before the
/// last has binary digits.
class ShardSums {
 public:
  /// @param values array that each shard writes in turn
  ShardSums(Device& device, DeviceSpan<float> values, std::int64_t shards);

  /// Adds `values` after shard `shard` = 0, 1, …, but not after the last; they are scratch afterwards.
  void keep(std::int64_t shard);
  /// values[begin, end) ← their sum over the shards, of which the last one's are in `values`.
  void finish(std::int64_t begin, std::int64_t end);
  std::int64_t shards() const { return shards_; }
  std::int64_t bytes() const;  ///< Memory of the partial sums

 private:
  FlatMath& flat_;
  DeviceSpan<float> values_;
  std::int64_t shards_;
  std::vector<Storage>
      partial_;  ///< [k]: the sum of 2ᵏ shards, while bit k of the number of added ones is set
};

}  // namespace flotilla
