// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace flotilla {

/// "2-03:04:05", "03:04:05", "04:05" and "05" (minutes), as squeue prints times: seconds. Nothing for any
/// other text, "UNLIMITED" among them.
std::optional<double> slurm_duration_s(std::string_view text);

/// What Slurm says about the end of the job that this process is part of.
struct SlurmTime {
  std::string job{};               ///< Its number; empty: not a job of Slurm's
  std::optional<double> left_s{};  ///< Nothing: no limit, or unknown
  std::string unknown{};           ///< Why it is not known; empty: it is
};

/// From SLURM_JOB_END_TIME, else by asking squeue once (10 s at most): on one rank, not on all.
SlurmTime slurm_time();

/// Whether srun started several tasks as one step and told none of them how to find the others: each would
/// train alone. To be asked before MPI is initialised, which may set what is looked at.
bool slurm_tasks_disconnected();

/// Whether this is the task of the step that speaks for all.
bool slurm_first_task();

}  // namespace flotilla
