// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mpi/watchdog/roll_call.hpp"

namespace flotilla::mpi {

/// Ends a job that hangs. The training thread calls beat() as it goes (two relaxed stores); a thread of the
/// watchdog looks once in a while and, when nothing has moved for limit_s, here or on another rank, reports
/// and ends the job (exit code 3). So it does where a rank has not been heard of for as long, whatever the
/// others do.
class Watchdog {
 public:
  /// What was going on: printed when it hangs.
  struct Activity {
    const char* what = "starting";  ///< A literal: "all-reduce of bucket", "waiting for input", "saving".
    std::int64_t step = -1;
    std::int64_t index = -1;  ///< Bucket or batch; −1: none.
  };

  /// limit_s <= 0: off. `on_hang` gets the sentence and must end the job; the watchdog itself calls _exit if
  /// it has not 4 s after the limit. `roll_call`: asks the other ranks' watchdogs how they are; null: nobody
  /// is asked.
  Watchdog(double limit_s, std::function<void(const std::string&)> on_hang,
           std::unique_ptr<RollCall> roll_call = nullptr);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  /// A launcher whose rank dies asks all others to end and kills them a second later. Once `asked` says so
  /// and nothing moves, `say` gets a sentence, if there are ranks that do not answer. `asked` is called 20
  /// times a second. Before the first beat.
  void tell_of_lost_ranks(std::function<bool()> asked, std::function<void(const std::string&)> say);
  /// A process that goes on after it was stopped for longer than the limit leaves where `told` says that a
  /// rank has told why the job ends: the others have given it up. Before the first beat.
  void leave_when_told(std::function<bool()> told);
  void beat(const char* what, std::int64_t step, std::int64_t index = -1);
  void beat_at_disk();  ///< Where it is, waiting for a disk that has gone on.
  /// From now on clear_deadline() must come within `seconds`, or this process leaves without saving; that is
  /// put off while this rank or another waits for files, and all answer.
  void set_deadline(double seconds);
  /// The deadline that is set, or will be before the next clear_deadline(), comes so much later.
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

/// While it lives, processor time that its thread takes counts as moving: it reads files, or computes, for as
/// long as it takes. Then it waits for the others.
class CpuProgressScope {
 public:
  CpuProgressScope(Watchdog& watchdog, const char* what, std::int64_t step = -1);
  CpuProgressScope(const CpuProgressScope&) = delete;
  CpuProgressScope& operator=(const CpuProgressScope&) = delete;
  ~CpuProgressScope();
  void next(const char* what);  ///< The same with something else

 private:
  Watchdog& watchdog_;
};

/// While it lives, `find` tells which ranks have not arrived where this one waits, as far as it can see; it
/// is called on the watchdog's thread.
class MissingRanks {
 public:
  MissingRanks(Watchdog& watchdog, std::function<std::vector<int>()> find);
  MissingRanks(const MissingRanks&) = delete;
  MissingRanks& operator=(const MissingRanks&) = delete;
  ~MissingRanks();

 private:
  Watchdog& watchdog_;
};

/// While it lives, the job ends as a hang does once `find` tells of something that went wrong beside the
/// training thread, on a device or in a network; it is called 4 times a second at least, on the watchdog's
/// thread.
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
