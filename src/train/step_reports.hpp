// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "src/observe/reporter.hpp"
#include "src/strategy/strategy.hpp"
#include "src/train/monitor/click_metrics.hpp"
#include "src/train/monitor/resource_advice.hpp"
#include "src/train/monitor/straggler_monitor.hpp"
#include "src/train/run_parts.hpp"
#include "src/train/training_state.hpp"

namespace flotilla {

/// Means of a training's steps over its last two to four seconds, for the line on the terminal.
class RecentRates {
 public:
  /// Since the start of training.
  struct Totals {
    std::int64_t steps = 0;
    std::int64_t step_ns = 0;
    std::int64_t wait_ns = 0;  ///< For input and for other workers; a part of step_ns
  };

  /// @param now_ns of a clock that does not go back
  void update(const Totals& totals, std::int64_t now_ns) {
    if (now_ns - marked_ns_ >= mark_every_ns) {
      older_ = newer_;
      newer_ = now_;
      marked_ns_ = now_ns;
    }
    now_ = totals;
  }
  double step_s() const {
    return 1e-9 * static_cast<double>(now_.step_ns - older_.step_ns) /
           static_cast<double>(std::max<std::int64_t>(1, now_.steps - older_.steps));
  }
  /// Share of the time, in [0, 1].
  double waiting() const {
    return static_cast<double>(now_.wait_ns - older_.wait_ns) /
           static_cast<double>(std::max<std::int64_t>(1, now_.step_ns - older_.step_ns));
  }

 private:
  static constexpr std::int64_t mark_every_ns = 2'000'000'000;

  Totals older_;
  Totals newer_;
  Totals now_;
  std::int64_t marked_ns_ = 0;
};

/// The mean loss of the steps since the last report. A single batch's loss says little about progress.
class LossMean {
 public:
  void add(const StepOutcome& outcome) {
    if (outcome.samples <= 0.0 || !std::isfinite(outcome.loss)) return;
    sum_ += outcome.loss;
    ++steps_;
  }
  /// Forgets what was added. @returns nothing if that was nothing
  std::optional<double> take() {
    if (steps_ == 0) return std::nullopt;
    const double mean = sum_ / static_cast<double>(steps_);
    sum_ = 0.0;
    steps_ = 0;
    return mean;
  }

 private:
  double sum_ = 0.0;
  std::int64_t steps_ = 0;
};

/// The reports of a training about its steps: metrics, stragglers, the line on the terminal, advice.
class StepReports {
 public:
  StepReports(RunParts& run, Reporter& reporter, const TrainingState& state);

  /// Whether that step is reported: every run.log_every steps, and the last. @param position after it
  bool is_due(std::int64_t step, const Position& position) const;
  void begin();  ///< To be called by the computing thread before a run's first step
  /// To be called after every step of a run. @param step_ns its time
  void add(const StepOutcome& outcome, std::int64_t step_ns);
  /// Collective where workers step together. @param clicks null: the model predicts no clicks
  void report(const StepOutcome& outcome, ClickLog* clicks);
  void show_live(const StepOutcome& outcome);  ///< Updates the line on the terminal
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
  std::optional<double> last_epoch_s_{};  ///< Duration of the epoch that ended last, if it was whole
  std::int64_t rated_steps_ = 0;          ///< Steps after the first ten
  std::int64_t rated_ns_ = 0;
  std::optional<ResourceAdvice> advice_;  ///< Advice of a run
  StragglerMonitor stragglers_;
};

}  // namespace flotilla
