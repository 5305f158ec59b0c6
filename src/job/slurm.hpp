// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla {

/// "2-03:04:05", "03:04:05", "04:05" and "05" (minutes), as squeue prints times, in seconds. Empty for any
/// other text, such as "UNLIMITED".
std::optional<double> slurm_duration_s(std::string_view text);

/// Slurm's time limit of the job of this process.
struct SlurmTime {
  std::string job{};               ///< Job id; empty: not a Slurm job
  std::optional<double> left_s{};  ///< Empty: no limit, or unknown
  std::string unknown{};           ///< Why the limit is unknown; empty: it is known
};

/// Reads SLURM_JOB_END_TIME, or asks squeue once if that is not set (10 s at most): to be called on one rank,
/// not on all.
SlurmTime slurm_time();

/// This user's jobs that squeue lists (10 s at most), the pending ones first, each as "job 123 resnet50 is
/// pending (Resources)" or "… is running"; at most three. Empty without Slurm.
std::vector<std::string> slurm_jobs_of_user();

/// The first three jobs of what squeue prints in the format "%i|%j|%T|%r", a line each, in those words; other
/// lines are left out.
std::vector<std::string> slurm_jobs_in(std::string_view lines);

}  // namespace flotilla
