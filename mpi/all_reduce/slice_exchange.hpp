// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/environment.hpp"
#include "mpi/core/slices.hpp"
#include "mpi/core/wire.hpp"

namespace flotilla::mpi {

/// Reduce-scatter and all-gather in which every rank sends each slice straight to the rank that owns it, and
/// each owner its slice to all. The first `owners` ranks own slices. Its memory grows to what the largest
/// array needs.
class SliceExchange {
 public:
  static constexpr std::size_t largest_count = std::size_t{1} << 28;  ///< Keeps MPI's counts in an int.

  /// Collective: makes its own communicator.
  SliceExchange(const Communicator& group, int owners, Wire wire);

  int ranks() const { return group_.size(); }
  SliceBounds slice(std::size_t count) const {
    return slice_of_owner(count, group_.rank());
  }  ///< This rank's slice
  /// data[i] ← Σ over ranks for i in this rank's slice; the others' values stay. Added in the tree of
  /// sum_arrays.hpp; with a half wire in rank order.
  void reduce_scatter(std::span<float> data, const CallSite& at);
  /// Every slice ← its owner's. With a half wire the owner's own slice is rounded as it was sent.
  void all_gather(std::span<float> data, const CallSite& at);
  std::size_t sent_bytes(std::size_t count) const;  ///< Bytes that this rank sends in both together.
  std::vector<int> missing_ranks() const;           ///< Safe from another thread.

 private:
  SliceBounds slice_of_owner(std::size_t count, int rank) const;
  void receive(std::byte* to, std::size_t count, int from);
  void send(const std::byte* from, std::size_t count, int to);
  void wait();
  void add_up(std::span<float> data, SliceBounds mine);
  void decode_and_add_up(std::span<float> data, SliceBounds mine) const;
  const std::byte* encoded(std::span<const float> data, SliceBounds slice);

  Communicator group_;
  int owners_;
  Wire wire_;
  std::size_t value_bytes_;
  std::vector<std::byte> outgoing_;  ///< The whole array, encoded; unused with float32
  std::vector<std::byte> incoming_;
  std::vector<const float*> arrays_;  ///< By rank: its values of this rank's slice
  std::vector<MPI_Request> requests_;
  std::vector<int> from_;                    ///< By request: the rank it receives from; −1: it sends
  std::vector<int> finished_;                ///< Output of MPI_Testsome
  std::vector<std::atomic<bool>> expected_;  ///< By rank: waited for now
};

using SliceExchangeHandle = std::unique_ptr<SliceExchange, LeaveWhileThrowing<SliceExchange>>;

}  // namespace flotilla::mpi
