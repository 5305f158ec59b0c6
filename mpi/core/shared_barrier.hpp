// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace flotilla::mpi {

/// How often a rank has arrived, and in the rest of the cache line data that it publishes at no extra cost.
/// Written by that rank only. Lies, zeroed, in memory that all ranks map.
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

}  // namespace flotilla::mpi
