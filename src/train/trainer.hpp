// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/job/time_limit.hpp"
#include "src/observe/mlperf_log.hpp"
#include "src/observe/reporter.hpp"
#include "src/train/beginning.hpp"
#include "src/train/checkpoints.hpp"
#include "src/train/model_checks.hpp"
#include "src/train/run_parts.hpp"
#include "src/train/saves.hpp"
#include "src/train/step_reports.hpp"
#include "src/train/stop_decision.hpp"
#include "src/train/training_loaders.hpp"
#include "src/train/training_state.hpp"
#include "src/train/training_step.hpp"
#include "src/train/validations.hpp"

namespace flotilla {

/// The end of a run.
struct Ending {
  std::string reason;  ///< EndReport::reason
  std::int64_t step = 0;
  bool stopped = false;    ///< Exit with exit_stopped
  bool too_short = false;  ///< Slurm's limit left time for one step only; set on worker 0
  double exposed_comm_s = 0.0;
  std::string divergence{};  ///< Description of a divergence, equal on all workers; empty: nothing did
};

/// The training loop of one worker. Its parts say when something happens, and do it: the step, reports,
/// validations, checkpoints, checks of the model, the decision to stop.
class Trainer {
 public:
  struct Parts {
    RunParts& run;
    Reporter& reporter;
    Saves::Writers writers;
    FailureHandler& failure;
    LoaderOptions loading;
    std::string build;                   ///< For the versions in checkpoints
    TimeLimit limit{};                   ///< Limit on worker 0; the others have none
    bool ends_job_when_diverged = true;  ///< False: run() returns how it diverged
    MlperfLog* mlperf = nullptr;         ///< On worker 0, with run.mlperf_log
  };
  Trainer(Parts parts, const Beginning& beginning);

  /// Collective. Trains for the planned steps, or until a stop is agreed on; then evaluates and saves.
  Ending run();
  /// Collective. One optimizer step; for benchmarks.
  StepOutcome step(Loader& loader) { return step_.take(loader, plan_step()); }
  /// Collective. Saves a checkpoint.
  void save() { checkpoints_.save(); }
  const PhaseTimes& times() const { return state_.times; }
  std::unique_ptr<Loader> make_loader() const { return loaders_.of_steps(state_.position); }

 private:
  StepPlan plan_step();
  void look_at(const StepOutcome& outcome, std::int64_t step_ns);
  void save_for_stop();
  Ending end();
  bool has_done(std::int64_t step, const Position& position) const;
  bool is_done() const;
  void agree_on_end();
  WorkToCome work_to_come() const;

  Parts parts_;
  RunParts& run_;
  TrainingState state_;
  TrainingLoaders loaders_;
  Saves saves_;
  TrainingStep step_;
  StepReports reports_;
  Validations validations_;
  ModelChecks checks_;
  Checkpoints checkpoints_;
  StopDecision stop_;
};

}  // namespace flotilla
