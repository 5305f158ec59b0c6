// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/messages.hpp"

#include <cstdint>
#include <span>

#include "mpi/core/backoff.hpp"
#include "mpi/core/native.hpp"

namespace flotilla::mpi {

namespace {

constexpr int message_tag = 2;

}  // namespace

Messages::Messages(const Communicator& group)
    : group_(group.collective_clone()), expected_(static_cast<std::size_t>(group.size())) {}

void Messages::receive(void* to, std::size_t bytes, int from) {
  if (bytes == 0) return;
  MPI_Request request = MPI_REQUEST_NULL;
  check(
      MPI_Irecv(to, static_cast<int>(bytes), MPI_BYTE, from, message_tag, NativeHandle::of(group_), &request),
      "MPI_Irecv");
  requests_.push_back(request);
  from_.push_back(from);
  expected_[static_cast<std::size_t>(from)].store(true, std::memory_order_relaxed);
}

void Messages::send(const void* from, std::size_t bytes, int to) {
  if (bytes == 0) return;
  MPI_Request request = MPI_REQUEST_NULL;
  check(
      MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, to, message_tag, NativeHandle::of(group_), &request),
      "MPI_Isend");
  requests_.push_back(request);
  from_.push_back(-1);
}

// MPI_Waitsome is avoided because it keeps a processor busy: the computation needs it, and so does the
// kernel's own network thread, whose buffers keep the wire busy meanwhile.
void Messages::wait() {
  std::size_t left = requests_.size();
  if (finished_.size() < left) finished_.resize(left);
  constexpr int spins = 16;
  constexpr std::int64_t yield_ns = 50'000;
  Backoff backoff(spins, yield_ns);
  while (left > 0) {
    int count = 0;
    check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, finished_.data(),
                       MPI_STATUSES_IGNORE),
          "MPI_Testsome");
    if (count == 0) {
      backoff.pause();
      continue;
    }
    backoff = Backoff(spins, yield_ns);
    for (const int index : std::span(finished_).first(static_cast<std::size_t>(count))) {
      const int from = from_[static_cast<std::size_t>(index)];
      if (from >= 0) expected_[static_cast<std::size_t>(from)].store(false, std::memory_order_relaxed);
    }
    left -= static_cast<std::size_t>(count);
  }
  requests_.clear();
  from_.clear();
}

std::vector<int> Messages::missing_ranks() const {
  std::vector<int> missing;
  for (std::size_t rank = 0; rank < expected_.size(); ++rank)
    if (expected_[rank].load(std::memory_order_relaxed)) missing.push_back(static_cast<int>(rank));
  return missing;
}

}  // namespace flotilla::mpi
