// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/shared_barrier.hpp"

#include <unistd.h>

#include <utility>

#include "mpi/core/backoff.hpp"

namespace flotilla::mpi {

namespace {

/// A hundred microseconds where every rank has a processor: they are seldom further apart, and on a busy
/// machine sched_yield() gives a whole slice of milliseconds away. With more ranks than processors, spinning
/// keeps the others from arriving.
int patience(std::size_t ranks) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  return processors >= static_cast<long>(ranks) ? 4000 : 64;
}

}  // namespace

SharedBarrier::SharedBarrier(std::vector<Arrivals*> ranks, int own_rank)
    : ranks_(std::move(ranks)),
      own_rank_(static_cast<std::size_t>(own_rank)),
      spins_(patience(ranks_.size())) {}

void SharedBarrier::arrive_and_wait() {
  ++arrivals_;
  ranks_[own_rank_]->count.store(arrivals_, std::memory_order_release);
  waited_for_.store(arrivals_, std::memory_order_relaxed);
  Backoff backoff(spins_);
  for (const Arrivals* rank : ranks_) {
    while (rank->count.load(std::memory_order_acquire) < arrivals_) backoff.pause();
  }
  waited_for_.store(0, std::memory_order_relaxed);
}

std::vector<int> SharedBarrier::missing_ranks() const {
  std::vector<int> missing;
  const std::uint64_t expected = waited_for_.load(std::memory_order_relaxed);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank]->count.load(std::memory_order_relaxed) < expected)
      missing.push_back(static_cast<int>(rank));
  }
  return missing;
}

}  // namespace flotilla::mpi
