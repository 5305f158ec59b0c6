// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/job/time_limit.hpp"
#include "src/observe/mlperf_log.hpp"
#include "src/observe/reporter.hpp"
#include "src/optim/schedule.hpp"
#include "src/train/beginning.hpp"
#include "src/train/monitor/agreement.hpp"
#include "src/train/monitor/best_validation.hpp"
#include "src/train/monitor/click_log.hpp"
#include "src/train/monitor/loss_mean.hpp"
#include "src/train/monitor/recent_rates.hpp"
#include "src/train/monitor/replaced_samples.hpp"
#include "src/train/monitor/resource_advice.hpp"
#include "src/train/monitor/straggler_monitor.hpp"
#include "src/train/run_parts.hpp"
#include "src/train/save_clock.hpp"
#include "src/train/saves.hpp"

namespace flotilla {

/// How a run ended.
struct Ending {
  std::string reason;  ///< EndReport::reason
  std::int64_t step = 0;
  bool stopped = false;      ///< Exit with exit_stopped
  bool too_short = false;    ///< Slurm's limit left time for one step only; set on worker 0
  std::string divergence{};  ///< What diverged where, equal on all workers; empty: nothing did
};

/// Time of the training thread since the start, by phase, nanoseconds. Communication and optimizer:
/// StrategyTimes.
struct PhaseTimes {
  std::int64_t steps = 0;
  std::int64_t step_ns = 0;     ///< All of them, without validation and checkpoints
  std::int64_t input_ns = 0;    ///< Waiting for a batch
  std::int64_t read_ns = 0;     ///< Of the loader's threads, all together: reading
  std::int64_t forward_ns = 0;  ///< Without waiting for other workers, like the next
  std::int64_t backward_ns = 0;
  std::int64_t pause_ns = 0;   ///< run.emulate_straggler
  std::int64_t stall_ns = 0;   ///< Checkpoints: waiting for copies and reads
  std::int64_t saving_ns = 0;  ///< Checkpoints: all of it
  std::int64_t validation_ns = 0;
};

/// The training loop of one worker.
class Trainer {
 public:
  struct Parts {
    RunParts& run;
    Reporter& reporter;
    Saves::Writers writers;
    FailureHandler& failure;
    LoaderOptions loading;
    std::string build;                   ///< For the versions in checkpoints
    TimeLimit limit{};                   ///< On worker 0; the others have none
    bool ends_job_when_diverged = true;  ///< Else run() returns how it diverged
    MlperfLog* mlperf = nullptr;         ///< On worker 0, with run.mlperf_log
  };
  Trainer(Parts parts, const Beginning& beginning);

  /// Collective. Trains for the planned steps, or until a stop is agreed on; then evaluates and saves.
  Ending run();
  /// Collective. One optimizer step; for benchmarks.
  StepOutcome step(Loader& loader);
  /// Collective. Saves a checkpoint.
  void save();
  const PhaseTimes& times() const { return times_; }
  std::unique_ptr<Loader> make_loader() const;

 private:
  struct Divergence {
    std::string text;
  };
  Ending train();
  bool done() const {
    return time_is_up_ || done_at(step_, position_) || best_.out_of_patience() || best_.reached_target();
  }
  double trained_s() const;
  void agree_on_end();
  void report_best();
  bool done_at(std::int64_t step, const Position& position) const;
  bool reports_at(std::int64_t step, const Position& position) const;
  bool synchronises_at(std::int64_t step, const Position& position) const;
  bool validates_now() const { return validates_at(position_); }
  bool validates_at(const Position& position) const;
  LoaderOptions loading_beside_training() const;
  std::int64_t epoch_of_last_step() const;
  bool asked_to_stop();
  WorkToCome work_to_come() const;
  double mean_step_s() const;
  bool saves_at(std::int64_t step) const;
  bool keeps_best() const { return config_.checkpoint.best != BestMetric::none; }
  bool is_time_to_save();
  bool checks_agreement_at(std::int64_t step, const Position& position) const;
  void check_agreement();
  void end_epoch();
  void report(const StepOutcome& outcome);
  void show_live(const StepOutcome& outcome);
  void estimate_statistics(const Model& model);
  /// What the micro-steps of a step have in common.
  struct Computation {
    DeviceSpan<float> sums;  ///< Loss sums of the step
    DeviceScalar<float> scale;
    std::int64_t computed_before_ns = 0;  ///< Forward and backward of the steps before it
  };
  const Batch& take_batch(Loader& loader);
  void wait_for_save();
  void compute(const Batch& batch, std::int64_t micro_step, const Computation& computation);
  HostBatch input_of(const Batch& batch);
  void learn_rows(const Batch& batch, Loader& loader);
  std::string save_rows(CheckpointState& state);
  std::vector<CheckpointPart> save_rows_of_servers(const CheckpointState& state);
  void log_clicks(const Batch& batch);
  void pause_if_emulated(std::int64_t compute_ns);
  StepTimes step_times() const;
  void report_waiting();
  InputTimes input_times() const;
  void validate();
  void check_finite(const StepOutcome& outcome);
  void check_finite(const StrategyState& state);
  void check_overflow_limit(const StepOutcome& outcome);
  [[noreturn]] void end_diverged(const std::string& what);
  void end_diverged_alone(const std::string& what);
  std::string divergence(const std::string& what, const std::string& where) const;
  std::string where_not_finite() const;

  Parts parts_;
  RunParts& run_;
  const Config& config_;
  Sampler sampler_;
  Schedule schedule_;
  RunEnd end_;
  std::map<std::string, std::string> changes_;
  std::int64_t step_ = 0;
  Position position_;
  std::int64_t samples_ = 0;
  std::int64_t last_saved_step_ = -1;
  std::int64_t last_validated_step_ = -1;
  std::int64_t begin_ns_ = 0;
  std::int64_t longest_step_ns_ = 0;
  std::int64_t longest_validation_ns_ = 0;
  std::int64_t longest_saving_ns_ = 0;   ///< Of the training thread
  std::int64_t saved_floats_ = 0;        ///< Of a checkpoint, but for rows
  std::optional<SaveClock> save_clock_;  ///< Of a run(), with checkpoint.every_s
  bool asks_clock_ = false;              ///< After the last step
  std::string stop_reason_;
  double seconds_before_ = 0.0;  ///< Of resumed steps; with train.seconds
  bool time_is_up_ = false;      ///< train.seconds; equal on all workers
  std::string diverged_;         ///< On this worker alone so far
  double learning_rate_ = 0.0;

  PhaseTimes times_;
  struct Mark {  ///< Totals at the last report
    PhaseTimes times;
    StrategyTimes strategy;
    std::int64_t rated_steps = 0;
    std::int64_t rated_ns = 0;
  };
  Mark mark_;
  RecentRates recent_;                    ///< For the terminal
  LossMean losses_;                       ///< Since the last report
  std::int64_t epoch_begin_ns_ = 0;       ///< times_.step_ns when the epoch began
  bool epoch_whole_ = false;              ///< All of its steps were in this run
  std::optional<double> last_epoch_s_{};  ///< Of the epoch that ended last, if it was whole
  std::int64_t rated_steps_ = 0;          ///< Those after the first ten
  std::int64_t rated_ns_ = 0;
  std::optional<ResourceAdvice> advice_;  ///< Of a run()
  BestValidation best_;
  bool improved_ = false;  ///< By a validation after which nothing was saved yet
  Saves saves_;
  ReplacedSamples replaced_;
  StragglerMonitor stragglers_;
  AgreementCheck agreement_;
  std::optional<ClickLog> clicks_;               ///< Of a model that predicts clicks
  std::vector<float> logits_;                    ///< Its last
  std::optional<HostStaging> gradient_staging_;  ///< For the gradient of the input, with embeddings
  const Batch* ahead_ = nullptr;                 ///< Taken for the next step; null: not yet
  std::int64_t last_agreed_step_ = -1;
  bool agreement_due_ = false;
};

}  // namespace flotilla
