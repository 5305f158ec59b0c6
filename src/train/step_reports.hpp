// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "src/observe/reporter.hpp"
#include "src/train/monitor/click_log.hpp"
#include "src/train/monitor/loss_mean.hpp"
#include "src/train/monitor/recent_rates.hpp"
#include "src/train/monitor/resource_advice.hpp"
#include "src/train/monitor/straggler_monitor.hpp"
#include "src/train/run_parts.hpp"
#include "src/train/training_state.hpp"

namespace flotilla {

/// What a training reports about its steps: metrics, stragglers, the line on the terminal, advice.
class StepReports {
 public:
  StepReports(RunParts& run, Reporter& reporter, const TrainingState& state);

  void begin();  ///< By the thread that computes, before the first step of a run
  /// After every step of a run. @param step_ns its time
  void add(const StepOutcome& outcome, std::int64_t step_ns);
  /// Collective where workers step together. @param clicks null: the model predicts no clicks
  void report(const StepOutcome& outcome, ClickLog* clicks);
  void show_live(const StepOutcome& outcome);  ///< On the terminal
  void report_whole();                         ///< Collective. At the end of a run.
  std::optional<double> last_epoch_s() const { return last_epoch_s_; }

 private:
  void end_epoch();
  StepTimes totals() const;
  InputTimes input_times() const;
  void put_rates(StepReport& report) const;
  void put_stragglers(const StragglerReport& stragglers, std::int64_t steps, StepReport& report) const;
  const mpi::Place& place_of(int worker) const;

  /// Totals at the last report.
  struct Mark {
    PhaseTimes times;
    Traffic traffic;
    std::int64_t sent_bytes = 0;
    std::int64_t rated_steps = 0;
    std::int64_t rated_ns = 0;
  };

  RunParts& run_;
  Reporter& reporter_;
  const TrainingState& state_;
  std::int64_t begin_ns_;
  Mark mark_;
  RecentRates recent_;                    ///< For the terminal
  LossMean losses_;                       ///< Since the last report
  std::int64_t epoch_begin_ns_ = 0;       ///< PhaseTimes::step_ns when the epoch began
  bool epoch_whole_ = false;              ///< All of its steps were in this run
  std::optional<double> last_epoch_s_{};  ///< Of the epoch that ended last, if it was whole
  std::int64_t rated_steps_ = 0;          ///< Those after the first ten
  std::int64_t rated_ns_ = 0;
  std::optional<ResourceAdvice> advice_;  ///< Of a run
  StragglerMonitor stragglers_;
};

}  // namespace flotilla
