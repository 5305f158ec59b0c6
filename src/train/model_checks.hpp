// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "src/job/failure.hpp"
#include "src/train/monitor/agreement.hpp"
#include "src/train/run_parts.hpp"
#include "src/train/saves.hpp"
#include "src/train/training_state.hpp"

namespace flotilla {

/// Ends a training that diverged on all workers, where this does not end the job.
struct Divergence {
  std::string text;
};

/// Checks of the model between steps: workers hold equal models, values are finite, some loss scale
/// avoids overflow. A run where it does not hold ends.
class ModelChecks {
 public:
  /// @param ends_job_when_diverged else check_finite() throws a Divergence
  ModelChecks(RunParts& run, FailureHandler& failure, Saves& saves, const TrainingState& state,
              bool ends_job_when_diverged);

  /// Whether workers that step together compare their models after that step. @param reported whether it is
  bool is_due(std::int64_t step, bool reported) const;
  /// Whether models are to be compared that differ between averagings, and are equal now.
  bool is_overdue() const;
  /// Collective. Ends the job where the workers hold different models.
  void check_agreement();
  /// Collective where all workers have synchronised. After a step: its loss and the statistics, and the
  /// number of steps in a row that overflowed.
  void check_finite(const StepOutcome& outcome);
  /// Collective. The arrays to save.
  void check_finite(const StrategyState& state);
  bool diverged_alone() const { return !diverged_.empty(); }  ///< All workers are asked to stop then
  /// Collective, after the last step. @throws Divergence if a worker has diverged alone
  void agree_on_divergence() const;

 private:
  void check_overflow_limit(const StepOutcome& outcome);
  [[noreturn]] void end_diverged(const std::string& what);
  void end_diverged_alone(const std::string& what);
  std::string divergence(const std::string& what, const std::string& where) const;
  std::string where_not_finite() const;

  RunParts& run_;
  FailureHandler& failure_;
  Saves& saves_;
  const TrainingState& state_;
  bool ends_job_when_diverged_;
  AgreementCheck agreement_;
  std::int64_t last_agreed_step_ = -1;
  bool agreement_due_ = false;
  std::string diverged_;  ///< Description of this worker's own divergence; empty: it did not
};

}  // namespace flotilla
