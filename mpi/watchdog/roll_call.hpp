// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// The state of a rank, as its own watchdog reports it.
struct Presence {
  std::array<char, 64> what{};  ///< "all-reduce of bucket", cut off where it is longer
  std::int64_t step = -1;
  std::int64_t index = -1;  ///< Bucket or batch; −1: none
  double quiet_s = 0.0;     ///< Since it last moved
  std::int64_t ending = 0;  ///< 1: its watchdog ends the job as well
  std::int64_t done = 0;    ///< 1: it has finished `what`, and waits for the others
  std::int64_t files = 0;   ///< 1: it waits for files; quiet_s: since their last progress

  void set_what(const char* text);
  /// Whether both are at the same place of the same step.
  bool is_with(const Presence& other) const;
  std::string text() const;  ///< "all-reduce of bucket 2, step 57", "opening the data, done here"
};

/// Lets the watchdog threads of all ranks know each other's state while everything else may hang. A rank's
/// request goes to rank 0 along a tree (rank_tree.hpp), rank 0 asks all along it, and the result goes to all:
/// four messages a rank, however many want to know. The children of a rank that is silent are asked directly.
/// Where a request has no effect, the first rank of each host, in their order, takes rank 0's part. Has
/// messages of its own; no rank waits for an answer that does not come. Used by one thread at a time, whose
/// clock it keeps: one that stands still while the process is stopped.
class RollCall {
 public:
  /// Collective. `hosts`: of every rank.
  RollCall(const Communicator& world, std::vector<std::string> hosts);
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;
  ~RollCall();

  void set_time(double now_s);
  /// Answers the ranks that asked since the last call, and receives answers and results. Where a rank has
  /// asked for it, prints the stack of the thread that made this object.
  void answer(const Presence& mine);
  /// Collective, when no rank calls or answers any more, and before another communicator is made: receives
  /// what is under way (SmallMessages::receive_rest()).
  void receive_rest();
  /// Requests a result if the newest one is older than max_age_s. Returns at once.
  void call(double patience_s, double max_age_s);
  /// Requests a result, then answers until it is there: some polls of the other ranks where all answer, else
  /// `patience_s` or half of that more. If `mine` ends the job, that begins half a second later, because
  /// other ranks' watchdogs may be about to do so.
  void ask(const Presence& mine, double patience_s);
  bool silent() const;       ///< After ask(): is there a rank that did not answer?
  void begin_silences();     ///< Restarts the clocks of silence_s()
  double silence_s() const;  ///< After ask(): the longest time since a silent rank was last known to answer
  double quiet_s() const;    ///< After ask(): time since a rank last moved
  double files_quiet_s() const;  ///< Since one moved that waits for files; none: infinite
  /// After ask(): asks the ranks that are elsewhere than `mine`, at most four of them, to print the stacks of
  /// their training threads, and gives them half a second to do so.
  void ask_for_stacks(const Presence& mine);
  /// After ask(): did a lower rank answer whose watchdog ends the job too? Then that one reports.
  bool left_to_another() const;
  /// Mismatched collective calls or a deadlock of them, once a rank has waited for a second; on rank 0, as
  /// far as answer() and ask() have found out. Empty: none.
  const std::string& mismatch() const;
  /// After ask(): "rank 3 on node7 does not answer; the others wait in the same place". `missing`: ranks that
  /// have not arrived at the collective in which this one waits.
  std::string text(const Presence& mine, const std::vector<int>& missing) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The current activity of a training thread: printed at a hang.
struct Activity {
  const char* what = "starting";  ///< A literal: "all-reduce of bucket", "waiting for input", "saving".
  std::int64_t step = -1;
  std::int64_t index = -1;  ///< Bucket or batch; −1: none.
};

/// The kind of progress expected until the next beat.
enum class ActivityState : int {
  moving,   ///< Nothing
  working,  ///< Processor time of the thread counts as progress
  at_disk,  ///< The thread waits for a disk that progresses
  done,     ///< The thread has finished its activity, and waits for the others
};

/// The progress of a training thread, written by it and read by its watchdog's thread. Values that are read
/// may be of two beats: they are printed only when nothing moves.
class ThreadActivity {
 public:
  /// Called by the training thread.
  void beat(ActivityState is);
  void beat(ActivityState is, const char* what, std::int64_t step, std::int64_t index);
  void set_working_thread(clockid_t clock);  ///< Processor time of ActivityState::working

  std::uint64_t beats() const { return beats_.load(std::memory_order_acquire); }
  Activity activity() const;
  Presence presence() const;  ///< Activity and state; quiet_s and ending are the caller's to fill
  /// Called by the watchdog's thread. Whether the thread is ActivityState::working and has taken processor
  /// time since the last call.
  bool worked();

 private:
  std::atomic<const char*> what_{"starting"};
  std::atomic<std::int64_t> step_{-1};
  std::atomic<std::int64_t> index_{-1};
  std::atomic<ActivityState> state_{ActivityState::moving};
  std::atomic<clockid_t> working_thread_{CLOCK_MONOTONIC};
  std::atomic<std::uint64_t> beats_{0};
  double worked_s_ = 0;  ///< Processor time of the watchdog's thread at the last call of worked()
};

}  // namespace flotilla::mpi
