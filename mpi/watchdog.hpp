// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mpi/roll_call.hpp"

namespace flotilla::mpi {

/// Ends a job that hangs. The training thread calls beat() as it goes (two relaxed stores); a thread of the
/// watchdog looks once in a while and, when nothing has moved for limit_s, reports and ends the job (exit
/// code 3).
class Watchdog {
 public:
  /// What was going on: printed when it hangs.
  struct Activity {
    const char* what = "starting";  ///< A literal: "all-reduce of bucket", "waiting for input", "saving".
    std::int64_t step = -1;
    std::int64_t index = -1;  ///< Bucket or batch; −1: none.
  };

  /// limit_s <= 0: off. `missing`: the ranks that have not arrived where this one waits, as far as it can
  /// see; called on the watchdog's thread. `on_hang` gets the sentence and must end the job; the watchdog
  /// itself calls _exit if it has not 4 s after the limit. `roll_call`: asks the other ranks' watchdogs how
  /// they are; null: nobody is asked.
  Watchdog(double limit_s, std::function<std::vector<int>()> missing,
           std::function<void(const std::string&)> on_hang, std::unique_ptr<RollCall> roll_call = nullptr);
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
  /// Ends the job as a hang does once `failure` tells of something that went wrong beside the training
  /// thread, on a device or in a network. Called 4 times a second at least. Before the first beat.
  void look_out_for(std::function<std::string()> failure);
  void beat(const char* what, std::int64_t step, std::int64_t index = -1);
  /// From now on clear_deadline() must come within `seconds`, or this process leaves without saving.
  void set_deadline(double seconds);
  void clear_deadline();
  Activity activity() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flotilla::mpi
