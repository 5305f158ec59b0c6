// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device.hpp"
#include "src/config/config.hpp"

namespace flotilla {

// run.reproducible: a step's samples are cut into run.virtual_shards shards, each a micro-step of some
// worker. What they give is added in one binary tree over the shards, cut at the largest power of two below
// their number. A worker's shards are a subtree, added here; the all-reduce adds the workers' sums in the
// rest of the tree (mpi/all_reduce/sum_arrays.hpp). So nothing depends on the number of workers.

/// Micro-steps of a worker. @throws UserError if its shards would be no subtree, naming worker counts whose
/// are.
std::int64_t shards_per_worker(std::int64_t shards, int workers);

/// Adds a worker's shards as they come: as many partial sums as the number of shards before the last has
/// binary digits.
class ShardSums {
 public:
  /// Each shard in turn writes its values to `values`.
  ShardSums(Device& device, DeviceSpan<float> values, std::int64_t shards);

  /// Takes `values` in after shard `shard` = 0, 1, …, but not the last; they are scratch afterwards.
  void keep(std::int64_t shard);
  /// values[begin, end) ← their sum over the shards, of which the last one's are in `values`.
  void finish(std::int64_t begin, std::int64_t end);
  std::int64_t shards() const { return shards_; }
  std::int64_t bytes() const;  ///< Of the partial sums

 private:
  FlatMath& flat_;
  DeviceSpan<float> values_;
  std::int64_t shards_;
  std::vector<Storage> partial_;  ///< [k]: the sum of 2ᵏ shards, while bit k of the number taken in is set
};

}  // namespace flotilla
