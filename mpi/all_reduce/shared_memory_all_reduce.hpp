// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mpi/core/collective_checks.hpp"
#include "mpi/core/shared_memory.hpp"

namespace flotilla::mpi {

/// The number of times that a rank has arrived; the rest of the cache line holds data that it publishes at no
/// extra cost. Written by that rank only. Lies, zeroed, in memory that all ranks map.
struct alignas(128) Arrivals {
  using Note = std::array<std::uint64_t, 2>;
  std::atomic<std::uint64_t> count;
  Note note;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "must work between processes");

/// A barrier of the ranks of a host that knows which ranks have not arrived. Everything that a rank wrote
/// before arriving is visible to all after it.
class SharedBarrier {
 public:
  SharedBarrier(std::vector<Arrivals*> ranks, int own_rank);

  void arrive_and_wait();
  std::vector<int> missing_ranks() const;  ///< Ranks that this rank waits for now. Safe from another thread.

 private:
  std::vector<Arrivals*> ranks_;
  std::size_t own_rank_;
  int spins_;
  std::uint64_t arrivals_ = 0;
  std::atomic<std::uint64_t> waited_for_{0};  ///< 0: not waiting
};

/// Ranks of one host that access each other's arrays between meet() and part().
class SharedGroup {
 public:
  /// Collective over `group`, whose ranks are of the host of `storage`; that must outlive this.
  SharedGroup(const Communicator& group, SharedStorage& storage);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(arrays_.size()); }
  std::span<float* const> arrays() const { return arrays_; }  ///< The storage of each rank of the group

  /// A barrier, from which on `data`, at one offset of every rank's storage, may be read and written by all
  /// until part(). Returns the offset. @throws InternalError if it is not in the storage or ranks differ.
  std::size_t meet(std::span<float> data, const CallSite& at);
  void part();  ///< A barrier at the end of the access.

  /// Ranks that this rank waits for now. Safe from another thread.
  std::vector<int> missing_ranks() const { return barrier_.missing_ranks(); }

 private:
  /// The number of times that a rank has arrived, followed by its call.
  struct RankRecord {
    Arrivals arrivals;
    RankCall call;  ///< Call of the rank, if calls are checked
  };

  RankRecord* record(int rank) const;
  std::vector<Arrivals*> all_arrivals() const;
  std::size_t locate(std::span<float> data) const;
  void check_notes() const;
  void check_calls() const;

  Communicator group_;  ///< Calls are noted there
  SharedWindow records_;
  std::span<float> storage_;
  int rank_;
  SharedBarrier barrier_;
  std::vector<float*> arrays_;
};

}  // namespace flotilla::mpi
