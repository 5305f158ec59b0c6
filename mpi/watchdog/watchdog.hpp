// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mpi/watchdog/roll_call.hpp"

namespace flotilla::mpi {

/// Ends a job that hangs. The training thread calls beat() as it progresses (two relaxed stores); the
/// watchdog's thread polls and, when there was no progress for limit_s, here or on another rank, reports that
/// and ends the job (exit code 3). It also does so where a rank has not answered for as long, whatever the
/// others do.
class Watchdog {
 public:
  /// limit_s <= 0: off. `on_hang` gets the message and must end the job; if it has not done so within 4 s,
  /// the watchdog calls _exit. `roll_call`: asks the other ranks' watchdogs for their state; null: no rank is
  /// asked.
  Watchdog(double limit_s, std::function<void(const std::string&)> on_hang,
           std::unique_ptr<RollCall> roll_call = nullptr);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  /// Stops, unless an exception is being thrown: then it keeps watching until the job has been aborted.
  ~Watchdog();
  /// Ends the watch, also while an exception is being thrown. Nothing else may be called after it.
  void stop();

  /// A launcher that loses a rank signals all others and kills them a second later. Once `asked` returns true
  /// and there is no progress, `say` gets a message, if there are ranks that do not answer. `asked` is called
  /// 20 times a second. To be called before the first beat.
  void report_lost_ranks(std::function<bool()> asked, std::function<void(const std::string&)> say);
  /// A process that was stopped for longer than the limit exits when it continues, if `reported` returns
  /// true: a rank has reported why the job ends. To be called before the first beat.
  void leave_when_reported(std::function<bool()> reported);
  void beat(const char* what, std::int64_t step, std::int64_t index = -1);
  void beat_at_disk();  ///< The current activity waits for a disk, which has progressed.
  /// From now on clear_deadline() must be called within `seconds`, or this process exits without saving; the
  /// deadline is extended while this rank or another waits for files, and all answer.
  void set_deadline(double seconds);
  /// Extends the deadline that is set, or will be set before the next clear_deadline().
  void postpone_deadline(double seconds);
  void clear_deadline();
  Activity activity() const;

 private:
  friend class CpuProgressScope;
  friend class MissingRanks;
  friend class AsyncErrorMonitor;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// While an object of this class exists, processor time of its thread counts as progress, because reading
/// files or computing may take long. Its destructor marks the thread as waiting for the others.
class CpuProgressScope {
 public:
  CpuProgressScope(Watchdog& watchdog, const char* what, std::int64_t step = -1);
  CpuProgressScope(const CpuProgressScope&) = delete;
  CpuProgressScope& operator=(const CpuProgressScope&) = delete;
  ~CpuProgressScope();
  void next(const char* what);  ///< Renames the activity to `what`, a literal

 private:
  Watchdog& watchdog_;
};

/// While an object of this class exists, the watchdog's thread calls `find` for the ranks that have not
/// arrived where this one waits, as far as is known.
class MissingRanks {
 public:
  MissingRanks(Watchdog& watchdog, std::function<std::vector<int>()> find);
  MissingRanks(const MissingRanks&) = delete;
  MissingRanks& operator=(const MissingRanks&) = delete;
  ~MissingRanks();

 private:
  Watchdog& watchdog_;
};

/// While an object of this class exists, the job is ended like a hang once `find` returns an asynchronous
/// error of a device or a network; it is called at least 4 times a second, on the watchdog's thread.
class AsyncErrorMonitor {
 public:
  AsyncErrorMonitor(Watchdog& watchdog, std::function<std::string()> find);
  AsyncErrorMonitor(const AsyncErrorMonitor&) = delete;
  AsyncErrorMonitor& operator=(const AsyncErrorMonitor&) = delete;
  ~AsyncErrorMonitor();

 private:
  Watchdog& watchdog_;
};

}  // namespace flotilla::mpi
