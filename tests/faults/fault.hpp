// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace flotilla::test {

/// What is done to a run.
enum class Harm {
  kill_rank,       ///< SIGKILL
  kill_two,        ///< Two ranks at once
  kill_launcher,   ///< mpirun
  end_launcher,    ///< SIGTERM to mpirun
  die_at_call,     ///< A rank is killed in a write, sync, rename or removal of a checkpoint's file
  stop_rank,       ///< SIGSTOP, for ever
  pause_rank,      ///< SIGSTOP for a second; the run goes on and is asked to stop
  ask_to_stop,     ///< SIGUSR1 to mpirun
  fill_disk,       ///< Until a save has failed; then there is room again, and the run is asked to stop
  keep_disk_full,  ///< The disk stays full until the run ends
};

/// When.
enum class Moment {
  at_start,     ///< Before the first step, most likely
  in_training,  ///< After the first report
  in_saving,    ///< A checkpoint's file is there under its temporary name
  at_the_end,   ///< The run has done its steps, or nearly so
};

struct Fault {
  Harm harm = Harm::kill_rank;
  Moment moment = Moment::in_training;
  double delay_s = 0.0;  ///< After the moment
  int rank = 0;
  int other_rank = 0;
  std::string call{};  ///< "0 rename 2", for die_at_call

  std::string text() const;  ///< "kill rank 2, saving + 0.003 s"
};

inline std::string text_of(Harm harm) {
  switch (harm) {
    case Harm::kill_rank: return "kill rank";
    case Harm::kill_two: return "kill ranks";
    case Harm::kill_launcher: return "kill mpirun";
    case Harm::end_launcher: return "end mpirun";
    case Harm::die_at_call: return "die at call";
    case Harm::stop_rank: return "stop rank";
    case Harm::pause_rank: return "pause rank";
    case Harm::ask_to_stop: return "ask to stop";
    case Harm::fill_disk: return "fill disk";
    case Harm::keep_disk_full: return "keep disk full";
  }
  return "";
}

}  // namespace flotilla::test
