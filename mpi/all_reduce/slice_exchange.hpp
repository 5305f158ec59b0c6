// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "mpi/all_reduce/messages.hpp"
#include "mpi/core/environment.hpp"
#include "mpi/core/slices.hpp"

namespace flotilla::mpi {

/// Reduce-scatter and all-gather in which every rank sends each slice straight to the rank that owns it, and
/// each owner its slice to all: for groups of few ranks. The first `owners` ranks own slices. Its memory
/// grows to what the largest array needs.
class SliceExchange {
 public:
  static constexpr std::size_t largest_count = std::size_t{1} << 28;  ///< Keeps MPI's counts in an int.

  /// Collective: makes its own communicator.
  SliceExchange(const Communicator& group, int owners);

  int ranks() const { return messages_.group().size(); }
  SliceBounds slice(std::size_t count) const { return slice_of_owner(count, rank()); }  ///< This rank's slice
  /// data[i] ← Σ over ranks for i in this rank's slice; the others' values stay. Added in the tree of
  /// sum_arrays.hpp.
  void reduce_scatter(std::span<float> data, const CallSite& at);
  void all_gather(std::span<float> data, const CallSite& at);  ///< Every slice ← its owner's.
  std::size_t sent_bytes(std::size_t count) const;  ///< Bytes that this rank sends in both together.
  std::vector<int> missing_ranks() const { return messages_.missing_ranks(); }  ///< Safe from another thread.

 private:
  int rank() const { return messages_.group().rank(); }
  SliceBounds slice_of_owner(std::size_t count, int rank) const;

  Messages messages_;
  int owners_;
  std::vector<float> incoming_;
  std::vector<const float*> arrays_;  ///< By rank: its values of this rank's slice
};

using SliceExchangeHandle = std::unique_ptr<SliceExchange, LeaveWhileThrowing<SliceExchange>>;

}  // namespace flotilla::mpi
