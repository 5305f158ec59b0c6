// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/collective_scope.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <type_traits>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/native.hpp"

namespace flotilla::mpi {

namespace {

constexpr std::chrono::seconds patience_with_first_rank{10};

CollectiveLog& begin(const Communicator& group, const char* kind, const char* type, std::int64_t count,
                     const CallSite& at) {
  CollectiveLog& log = NativeHandle::log(group);
  log.begin(kind, type, count, at);
  return log;
}

/// FNV-1a (Fowler, Noll and Vo), 64 bits.
std::uint64_t hash_of(const CollectiveCall& call) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::byte byte : std::as_bytes(std::span(&call, 1)))
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3U;
  return hash;
}

static_assert(std::is_trivially_copyable_v<RankCall>, "travels as bytes");

}  // namespace

CollectiveScope::CollectiveScope(const Communicator& group, const char* kind, const char* type,
                                 std::int64_t count, const CallSite& at)
    : waiting_(begin(group, kind, type, count, at)) {
  if (!collective_checks() || group.size() == 1) return;
  const CollectiveCall mine = NativeHandle::log(group).last();
  // The largest, and the complement of the smallest.
  std::array largest{hash_of(mine), ~hash_of(mine)};
  const MPI_Comm comm = NativeHandle::of(group);
  check(MPI_Allreduce(MPI_IN_PLACE, largest.data(), 2, MPI_UINT64_T, MPI_MAX, comm), "MPI_Allreduce",
        at.where);
  if (largest[0] == ~largest[1]) return;
  const RankCall own = last_call(NativeHandle::log(group));
  std::vector<RankCall> all(static_cast<std::size_t>(group.size()));
  check(MPI_Allgather(&own, sizeof(own), MPI_BYTE, all.data(), sizeof(own), MPI_BYTE, comm), "MPI_Allgather",
        at.where);
  require_match(all);
}

RankCall last_call(const CollectiveLog& log) {
  int rank = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  return {rank, log.last()};
}

void require_match(std::span<const RankCall> calls) {
  if (std::ranges::adjacent_find(calls, std::ranges::not_equal_to(), &RankCall::call) == calls.end()) return;
  int rank = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  if (rank != calls.front().rank) std::this_thread::sleep_for(patience_with_first_rank);
  throw InternalError(text_of_mismatch(calls));
}

}  // namespace flotilla::mpi
