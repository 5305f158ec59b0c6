// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "mpi/core/collective_log.hpp"
#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

// Private to mpi/: finds errors in the collective calls of several ranks, by pure functions.

std::uint64_t hash_of(const CollectiveCall& call);

/// A rank's call, sent as bytes.
struct RankCall {
  std::int64_t rank = 0;  ///< Rank in MPI_COMM_WORLD
  CollectiveCall call{};
};

/// "mismatched collective calls: rank 0, rank 2 in …; rank 1 in …". Empty: the calls are equal.
/// @param calls of the same number on one communicator
/// @param names of the ranks of MPI_COMM_WORLD; none: by their numbers
std::string text_of_mismatch(std::span<const RankCall> calls, std::span<const std::string> names = {});

/// A history with hashes in the place of its calls, sent as bytes.
struct HashedHistory {
  HashedHistory() = default;
  explicit HashedHistory(const CollectiveHistory& history);

  std::uint64_t communicator = 0;
  std::int64_t begun = 0;
  std::int64_t first = 1;
  std::int32_t thread = -1;
  std::int32_t waiting = 0;
  std::array<std::uint64_t, CollectiveHistory::kept> hashes{};

  auto operator<=>(const HashedHistory&) const = default;
  std::uint64_t hash(std::int64_t number) const {
    return hashes[static_cast<std::size_t>(number) % hashes.size()];
  }
};

/// Ranks of MPI_COMM_WORLD, in their order, by the histories that they have in common: one on each of their
/// communicators. Those of ranks may be of different times.
using RankHistories = std::map<HashedHistory, std::vector<int>>;

/// A rank's collective call.
struct NumberedCall {
  int rank = 0;
  std::uint64_t communicator = 0;
  std::int64_t number = 0;
  CollectiveCall call{};  ///< Empty: not known yet
  bool operator==(const NumberedCall&) const = default;
};

/// Different collectives that were called as the same number on one communicator: of the first such number,
/// one rank for each call, eight at most. Empty: none. Calls never change once they are made, so the times of
/// the histories do not matter.
std::vector<NumberedCall> find_mismatch(const RankHistories& all);

/// The calls of all ranks of the number that `known` are of, as far as one of these is the same.
std::vector<RankCall> calls_of(const RankHistories& all, std::span<const NumberedCall> known);

/// A cycle of ranks: each is in a call that the next one has not begun, because the thread of the next one
/// that calls on that communicator is itself in the call named next. Empty: none. Only if the histories of
/// two times show the same cycle is it certain that all of them were there at one moment, and so forever.
std::vector<NumberedCall> find_deadlock(const RankHistories& all);

/// "deadlock of collective calls: rank 0 in …; rank 1 in …". @param names of all ranks
std::string text_of_deadlock(std::span<const NumberedCall> calls, std::span<const std::string> names);

// Private to mpi/: logging and checking of a collective call.

/// A word for the type of a collective's values.
template <class T>
constexpr const char* type_word() {
  if constexpr (std::same_as<T, float>) return "float";
  if constexpr (std::same_as<T, double>) return "double";
  if constexpr (std::same_as<T, std::int32_t>) return "int32";
  if constexpr (std::same_as<T, std::int64_t>) return "int64";
  if constexpr (std::same_as<T, char>) return "char";
  return "byte";
}

/// While an object of this class exists, its thread is marked as waiting in the last call of the log.
class WaitingScope {
 public:
  explicit WaitingScope(CollectiveLog& log) : log_(log) { log_.set_waiting(true); }
  WaitingScope(const WaitingScope&) = delete;
  WaitingScope& operator=(const WaitingScope&) = delete;
  ~WaitingScope() { log_.set_waiting(false); }

 private:
  CollectiveLog& log_;
};

/// A collective call on a communicator: notes it, compares it with the other ranks' where calls are checked,
/// and lasts as long as the call.
class CollectiveScope {
 public:
  /// @param kind, type literals @param count of values; −1: ranks may differ
  /// @throws InternalError on all ranks, naming them, where calls are checked and differ
  CollectiveScope(const Communicator& group, const char* kind, const char* type, std::int64_t count,
                  const CallSite& at);
  CollectiveScope(const Communicator& group, const char* kind, const CallSite& at)
      : CollectiveScope(group, kind, "", -1, at) {}

 private:
  WaitingScope waiting_;
};

RankCall last_call(const CollectiveLog& log);  ///< This rank's last call; for the thread that made it

/// @param calls of all ranks, the same number on their communicator
/// @throws InternalError naming the ranks and their calls, unless all are equal; on the first rank at once,
/// on the others some time later, so that the job ends with one message
void require_match(std::span<const RankCall> calls);

}  // namespace flotilla::mpi
