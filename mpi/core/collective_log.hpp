// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace flotilla::mpi {

/// The source position and the step of a call of a collective. A default argument, or a step in its place,
/// makes it at the call: `workers.barrier()`, `workers.barrier(step)`.
struct CallSite {
  CallSite(std::int64_t of_step = -1,  // NOLINT(google-explicit-constructor)
           std::source_location at = std::source_location::current())
      : step(of_step), where(at) {}

  std::int64_t step;  ///< Equal on all ranks; −1: none was given
  std::source_location where;
};

/// A collective call as ranks exchange it, sent as bytes.
struct CollectiveCall {
  std::array<char, 32> kind{};  ///< "all-reduce"
  std::array<char, 8> type{};   ///< "float"; empty: no values
  std::array<char, 48> file{};  ///< File of the call; its end if it is longer
  std::int64_t line = 0;
  std::int64_t count = -1;  ///< Values; −1: ranks may differ
  std::int64_t step = -1;   ///< −1: none was given

  /// Whether the two calls match.
  bool operator==(const CollectiveCall&) const = default;
  std::string text()
      const;  ///< "all-reduce of 7 float values (step 57, src/strategy/sync_all_reduce.cpp:80)"
};

/// The last collective calls of a process on one communicator.
struct CollectiveHistory {
  static constexpr std::size_t kept = 8;

  std::uint64_t communicator = 0;  ///< Identifier, equal on all its ranks
  std::int64_t begun = 0;          ///< Calls so far: the number of the last one, counted from 1
  std::int64_t first = 1;          ///< Number of the first call that `calls` holds
  std::int32_t thread = -1;        ///< The thread of the last call, numbered in the process; −1: none
  std::int32_t waiting = 0;        ///< 1: it is still in the last call
  std::array<CollectiveCall, kept> calls{};  ///< Number i is at i % kept

  const CollectiveCall& call(std::int64_t number) const {
    return calls[static_cast<std::size_t>(number) % kept];
  }
};

/// Notes the collective calls on one communicator: a few relaxed stores for each. One thread at a time calls;
/// others may read meanwhile.
class CollectiveLog {
 public:
  /// @param communicator its identifier, equal on all its ranks
  explicit CollectiveLog(std::uint64_t communicator);
  CollectiveLog(const CollectiveLog&) = delete;
  CollectiveLog& operator=(const CollectiveLog&) = delete;
  ~CollectiveLog();

  /// @param kind, type literals @param count −1: ranks may differ
  void begin(const char* kind, const char* type, std::int64_t count, const CallSite& at);
  /// The thread that called is in that call until further notice, and does nothing else.
  void set_waiting(bool waiting) { waiting_.store(waiting, std::memory_order_relaxed); }
  CollectiveCall last() const;  ///< By the thread that called
  /// Names a communicator that the last call has made. @param first_rank of it, in MPI_COMM_WORLD
  std::uint64_t made(int first_rank) const;
  CollectiveHistory history() const;  ///< Safe from another thread

  // The histories of this process. May be called from any thread.
  static std::vector<CollectiveHistory> all();
  /// Communicators that a thread waits on, and the numbers of the calls.
  static std::vector<std::pair<std::uint64_t, std::int64_t>> waiting();

 private:
  struct Entry {
    std::atomic<const char*> kind{""};
    std::atomic<const char*> type{""};
    std::atomic<const char*> file{""};
    std::atomic<std::int64_t> line{0};
    std::atomic<std::int64_t> count{-1};
    std::atomic<std::int64_t> step{-1};

    CollectiveCall call() const;
  };

  std::uint64_t communicator_;
  std::atomic<std::int64_t> begun_{0};
  std::atomic<std::int32_t> thread_{-1};
  std::atomic<bool> waiting_{false};
  std::array<Entry, CollectiveHistory::kept> entries_;
  CollectiveLog* next_ = nullptr;
};

/// Whether ranks compare each collective call before they make it: run.check_collectives. To be set between
/// the same two calls on all ranks.
void set_collective_checks(bool on);
bool collective_checks();

}  // namespace flotilla::mpi
