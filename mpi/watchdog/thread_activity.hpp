// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

#include "mpi/watchdog/roll_call.hpp"

namespace flotilla::mpi {

/// The current activity of a training thread: printed at a hang.
struct Activity {
  const char* what = "starting";  ///< A literal: "all-reduce of bucket", "waiting for input", "saving".
  std::int64_t step = -1;
  std::int64_t index = -1;  ///< Bucket or batch; −1: none.
};

/// What counts as progress until the next beat.
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
  double worked_s_ = 0;  ///< Of the watchdog's thread: processor time at the last call of worked()
};

}  // namespace flotilla::mpi
