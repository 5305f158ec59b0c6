// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "src/job/time_limit.hpp"
#include "src/observe/reporter.hpp"
#include "src/train/machine.hpp"
#include "src/train/training_state.hpp"

namespace flotilla {

/// Ends a training before its planned steps are done: at a signal, a time limit, after train.seconds, or
/// because another worker asks for it.
class StopDecision {
 public:
  /// @param limit on worker 0; the others have none
  StopDecision(const Config& config, const Machine& machine, Reporter& reporter, const TimeLimit& limit,
               const TrainingState& state);

  /// To be called before a step: whether this worker asks all to stop after it. @param work to come, of a run
  /// with a time limit
  bool asked_to_stop(const WorkToCome& work);
  bool has_limit() const { return limit_.is_set(); }
  void stop(const char* reason) { reason_ = reason; }
  /// All workers stop after the step that was taken: another one may have asked for it.
  void accept();
  /// Collective after the last step: worker 0's clock may have ended the training.
  void agree();
  bool time_is_up() const { return time_is_up_; }  ///< train.seconds; equal on all workers
  /// Why the training stops before its planned end; empty: it does not.
  const std::string& reason() const { return reason_; }
  bool is_too_short() const;  ///< Slurm's limit left time for one step only; on worker 0

  void note_step(std::int64_t step_ns);  ///< Takes the time of a step.
  double longest_step_s() const { return seconds(longest_step_ns_); }

 private:
  const TrainConfig& config_;
  const Machine& machine_;
  Reporter& reporter_;
  TimeLimit limit_;
  const TrainingState& state_;
  std::string reason_;
  bool time_is_up_;
  std::int64_t longest_step_ns_ = 0;
};

}  // namespace flotilla
