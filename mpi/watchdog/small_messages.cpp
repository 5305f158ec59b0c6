// SPDX-License-Identifier: Apache-2.0
#include "mpi/watchdog/small_messages.hpp"

#include <mutex>

#include "mpi/core/native.hpp"

namespace flotilla::mpi {

SmallMessages::~SmallMessages() {
  static std::mutex mutex;
  static auto& under_way = *new std::vector<std::deque<Sent>>;  // outlives MPI, which may still read it
  const std::lock_guard lock(mutex);
  if (!sent_.empty()) under_way.push_back(std::move(sent_));
}

void SmallMessages::send_bytes(std::span<const std::byte> bytes, int to, int tag) {
  Sent& message = sent_.emplace_back(Sent{.content = {bytes.begin(), bytes.end()}});
  check(MPI_Isend(message.content.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, tag,
                  NativeHandle::of(ranks_), &message.request),
        "MPI_Isend");
}

/// @returns the sender; −1: no message is there
int SmallMessages::receive_bytes(std::span<std::byte> bytes, int tag) {
  int there = 0;
  MPI_Status status;
  const MPI_Comm comm = NativeHandle::of(ranks_);
  check(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &there, &status), "MPI_Iprobe");
  if (there == 0) return -1;
  const int from = status.MPI_SOURCE;
  check(MPI_Recv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from, tag, comm, MPI_STATUS_IGNORE),
        "MPI_Recv");
  return from;
}

void SmallMessages::release_sent() {
  while (!sent_.empty() && completed(sent_.front().request)) sent_.pop_front();
}

}  // namespace flotilla::mpi
