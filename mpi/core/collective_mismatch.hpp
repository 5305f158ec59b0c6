// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi/core/collective_log.hpp"

// Private to mpi/: finds errors in the collective calls of several ranks, by pure functions.
namespace flotilla::mpi {

/// A rank's call, sent as bytes.
struct RankCall {
  std::int64_t rank = 0;  ///< In MPI_COMM_WORLD
  CollectiveCall call{};
};

/// "mismatched collective calls: rank 0, rank 2 in …; rank 1 in …". Empty: the calls are equal.
/// @param calls of the same number on one communicator
/// @param names of the ranks of MPI_COMM_WORLD; none: by their numbers
std::string text_of_mismatch(std::span<const RankCall> calls, std::span<const std::string> names = {});

/// What each rank of MPI_COMM_WORLD has called on its communicators; none: it has not answered. The answers
/// of ranks may be of different times.
using RankHistories = std::vector<std::optional<std::vector<CollectiveHistory>>>;

/// Ranks that called different collectives as the same number on one communicator: the text of the first.
/// Empty: none. Calls never change once they are made, so the times of the answers do not matter.
/// @param names of all ranks
std::string find_mismatch(const RankHistories& ranks, std::span<const std::string> names);

/// A rank that is in a collective call.
struct WaitingRank {
  int rank = 0;
  std::uint64_t communicator = 0;
  std::int64_t number = 0;
  bool operator==(const WaitingRank&) const = default;
};

/// A cycle of ranks: each is in a call that the next one has not begun, because the thread of the next one
/// that calls on that communicator is itself in the call named next. Empty: none. That all of them were there
/// at one moment, and so for ever, is certain only where two rounds of answers show the same ones.
std::vector<WaitingRank> find_deadlock(const RankHistories& ranks);

/// "deadlock of collective calls: rank 0 in …; rank 1 in …"
std::string text_of_deadlock(const std::vector<WaitingRank>& deadlock, const RankHistories& ranks,
                             std::span<const std::string> names);

}  // namespace flotilla::mpi
