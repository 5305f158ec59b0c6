// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mpi/core/collective_log.hpp"
#include "mpi/core/collective_mismatch.hpp"
#include "mpi/core/communicator.hpp"

// Private to mpi/: logging and checking of a collective call.
namespace flotilla::mpi {

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

/// While this exists, its thread waits in the last call of the log.
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

RankCall last_call(const CollectiveLog& log);  ///< This rank's, by the thread that called

/// @param calls of all ranks, the same number on their communicator
/// @throws InternalError naming the ranks and their calls, unless all are equal; on the first rank at once,
/// on the others some time later, so that the job ends with one message
void require_match(std::span<const RankCall> calls);

}  // namespace flotilla::mpi
