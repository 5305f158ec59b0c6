// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/clock.hpp"

#include <limits>

#include "kernels/trace.hpp"
#include "mpi/core/native.hpp"

namespace flotilla::mpi {

namespace {

constexpr int clock_round_trips = 50;
constexpr int clock_tag = 1;

std::int64_t ask_root(MPI_Comm comm) {
  std::int64_t offset = 0;
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < clock_round_trips; ++i) {
    std::int64_t theirs = 0;
    const std::int64_t begin = trace::now_ns();
    check(MPI_Send(nullptr, 0, MPI_INT64_T, 0, clock_tag, comm), "MPI_Send");
    check(MPI_Recv(&theirs, 1, MPI_INT64_T, 0, clock_tag, comm, MPI_STATUS_IGNORE), "MPI_Recv");
    const std::int64_t end = trace::now_ns();
    if (end - begin >= shortest) continue;
    shortest = end - begin;
    offset = begin + shortest / 2 - theirs;
  }
  return offset;
}

void answer(MPI_Comm comm, int rank) {
  for (int i = 0; i < clock_round_trips; ++i) {
    check(MPI_Recv(nullptr, 0, MPI_INT64_T, rank, clock_tag, comm, MPI_STATUS_IGNORE), "MPI_Recv");
    const std::int64_t now = trace::now_ns();
    check(MPI_Send(&now, 1, MPI_INT64_T, rank, clock_tag, comm), "MPI_Send");
  }
}

}  // namespace

double now_s() {
  return static_cast<double>(trace::now_ns()) * 1e-9;
}

std::int64_t clock_offset_ns(const Communicator& world) {
  const MPI_Comm comm = NativeHandle::of(world);
  if (!world.is_root()) return ask_root(comm);
  for (int rank = 1; rank < world.size(); ++rank) answer(comm, rank);
  return 0;
}

}  // namespace flotilla::mpi
