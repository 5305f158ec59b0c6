// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/config/config.hpp"
#include "src/job/slurm.hpp"

namespace flotilla {

/// The work of a run between the next decision to stop and its end, if it does not decide now. Times are the
/// longest so far.
struct WorkToCome {
  double step_s = 0.0;
  std::int64_t steps = 2;  ///< The current step and the one after which it would stop
  double mean_step_s = 0.0;
  std::int64_t catch_up_steps = 0;  ///< Steps of the slowest worker until the step after which all stop
  double save_s = 0.0;
  std::int64_t saves = 1;
  double validation_s = 0.0;
  std::int64_t validations = 0;
};

/// The time limit of a run: run.time_limit_s after the start of its process, and Slurm's limit.
class TimeLimit {
 public:
  TimeLimit() = default;  ///< None
  /// @param now_ns trace::now_ns()  @param age_s age of the process at now_ns
  TimeLimit(const RunConfig& config, const SlurmTime& slurm, double age_s, std::int64_t now_ns);

  bool is_set() const { return own_ || slurm_; }
  /// Whether a run that does not stop now could exceed the limit.
  bool reached(std::int64_t now_ns, const WorkToCome& work) const;
  /// Whether Slurm's limit was reached: the one of the two with less time left.
  bool is_slurms(std::int64_t now_ns) const;
  std::string text() const;  ///< For the start report; empty: there is none

 private:
  struct End {
    std::int64_t at_ns = 0;
    double margin_s = 0.0;  ///< Least time to keep free
  };
  std::optional<End> own_;
  std::optional<End> slurm_;
  std::string text_;
};

/// Seconds since this process was started; 0 where the system does not report it.
double process_age_s();

}  // namespace flotilla
