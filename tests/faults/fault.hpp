// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "tests/faults/failures.hpp"

namespace flotilla::test {

/// What is done to a run.
enum class Harm {
  kill_rank,           ///< SIGKILL
  kill_launcher,       ///< mpirun
  end_launcher,        ///< SIGTERM to mpirun
  die_at_call,         ///< A rank is killed in a write, sync or rename of a checkpoint's file
  stop_rank,           ///< SIGSTOP, forever
  pause_rank,          ///< SIGSTOP for a second; the run goes on and is asked to stop
  ask_to_stop,         ///< SIGUSR1 to mpirun
  end_ranks,           ///< SIGTERM to each rank, as Slurm does
  fill_disk,           ///< The disk is full until a save has failed; then the run is asked to stop
  keep_disk_full,      ///< The disk stays full until the run ends
  fill_shared_memory,  ///< /dev/shm of one host is full before the start
  fail_call,           ///< A call of one rank fails: memory, a thread, a file
  turn_clock,          ///< The wall clock jumps, also backwards; then the run is asked to stop
};

/// When.
enum class Moment {
  at_start,       ///< Before the first step, most likely
  in_staging,     ///< The first copy of its data is being made
  in_training,    ///< After the first report
  in_validation,  ///< In a validation, or a little before or after one
  in_saving,      ///< A checkpoint's file is there under its temporary name
  at_the_end,     ///< The run has done its steps, or nearly so
};

struct Fault {
  Harm harm = Harm::kill_rank;
  std::optional<Harm> also{};  ///< At the same time on `other_rank`: killed, stopped or asked to stop
  Moment moment = Moment::in_training;
  double delay_s = 0.0;  ///< After the moment
  int rank = 0;
  int other_rank = 0;
  int host = 0;
  FailingCall call{};  ///< The call of fail_call and die_at_call

  std::string text() const;  ///< "kill rank 2, saving + 0.003 s"
  std::string kind() const;  ///< "kill rank", "call fails: memory": what faults are counted by
  /// The run is to end in order, with a checkpoint of the step that it stopped at.
  bool ends_in_order() const;
};

std::string text_of(Harm harm);

}  // namespace flotilla::test
