// SPDX-License-Identifier: Apache-2.0
#include "mpi/push_pull/push_pull.hpp"

#include <algorithm>
#include <atomic>

#include "kernels/error.hpp"
#include "mpi/core/shared_memory.hpp"

namespace flotilla::mpi {

Communicator push_pull_copy(const Communicator& all) {
  return all.collective_clone();
}

HostRanks::HostRanks(const Communicator& all) : host_(all.split_by_host()) {
  const int mine = all.rank();
  const std::vector<std::int32_t> ranks = host_.all_gather(std::span(&mine, 1));
  ranks_.assign(ranks.begin(), ranks.end());
}

bool HostRanks::has(int rank) const {
  return std::ranges::binary_search(ranks_, rank);
}

PushPullWindow::PushPullWindow(const HostRanks& host, std::size_t bytes)
    : ranks_(host.ranks()),
      window_(std::make_unique<SharedWindow>(host.communicator(), bytes, "server.shared_memory = false")) {}

PushPullWindow::~PushPullWindow() = default;

std::span<std::byte> PushPullWindow::mine() const {
  return window_->of(window_->rank());
}

void PushPullWindow::publish() {
  std::atomic_thread_fence(std::memory_order_release);
}

std::span<const std::byte> PushPullWindow::announced(int rank, std::int64_t at, std::size_t bytes) const {
  const auto found = std::ranges::lower_bound(ranks_, rank);
  require(found != ranks_.end() && *found == rank, "rank ", rank, " shares no memory with this one");
  const std::span<const std::byte> part = window_->of(static_cast<int>(found - ranks_.begin()));
  require(at >= 0 && static_cast<std::size_t>(at) <= part.size() &&
              bytes <= part.size() - static_cast<std::size_t>(at),
          "rank ", rank, " announces ", bytes, " bytes at ", at, " of its ", part.size(), " shared ones");
  std::atomic_thread_fence(std::memory_order_acquire);
  return part.subspan(static_cast<std::size_t>(at), bytes);
}

}  // namespace flotilla::mpi
