// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "src/config/config.hpp"

namespace flotilla {

/// The progress of training. Samples are counted, not steps, so that another number of workers at the same
/// global batch sees the same learning rates.
struct Progress {
  double epochs = 0.0;        ///< Samples consumed before this step ÷ samples of an epoch
  double total_epochs = 0.0;  ///< `epochs` at the end of the run
  std::int64_t step =
      0;  ///< one_cycle: steps before this one, had all been of today's batch; in all of the run
  std::int64_t total_steps = 0;
  std::int64_t reductions = 0;  ///< plateau: Plateau::reductions()
};

/// The learning rate as a pure function of progress. With base = learning_rate (× global_batch ÷ base_batch
/// with scale_with_batch: Goyal et al. 2017), e = epochs, w = warmup_epochs, E = total_epochs:
///
///     e < w      warmup_from + (base − warmup_from) · e / w
///     constant   base
///     piecewise  base · factor^(number of milestones ≤ e)
///     cosine     final + (base − final) · (1 + cos(π t)) / 2,  t = (e − w) / (E − w)
///     linear     base + (final − base) · t
///     plateau    base, and at each reduction max(rate · factor, final), unless that changes it by 1e-8 or
///     less one-cycle  with i = step, I = total_steps, r = rise · I − 1, first = base / initial_divisor:
///                cos(first, base, i / r) up to i = r, then cos(base, first / final_divisor, (i − r) / (I − 1
///                − r)), cos(a, b, t) = b + (a − b) · (1 + cos(π t)) / 2
///
/// plateau and one-cycle are PyTorch's ReduceLROnPlateau and OneCycleLR(cycle_momentum=False).
/// cosine is SGDR's (Loshchilov & Hutter 2017). The warm-up ends at the base; cosine and linear start there
/// and reach `final` exactly at E (that of Fleet does not: docs/fleet.md, "Images"). warmup_from
/// and final are never scaled with the batch.
class Schedule {
 public:
  /// @param global_batch samples of one optimizer step over all workers.
  Schedule(const ScheduleConfig& config, std::int64_t global_batch);
  double base() const { return base_; }  ///< Rate after the warm-up
  double at(const Progress& progress) const;

 private:
  double decayed(const Progress& progress) const;
  double reduced(std::int64_t reductions) const;
  double cycled(const Progress& progress) const;

  ScheduleConfig config_;
  double base_;
};

/// schedule.kind = "plateau": counts the validations that do not improve, as PyTorch's ReduceLROnPlateau
/// does.
class Plateau {
 public:
  /// @param numbers numbers() when the run was saved; empty: it begins
  Plateau(const PlateauConfig& config, bool less_is_better, const std::map<std::string, double>& numbers);
  /// Takes the figure of the model after `step` steps, unless one of that step was taken before. Not a number
  /// is no improvement. @param figure equal on all workers @returns whether the learning rate falls
  bool add(double figure, std::int64_t step);
  std::int64_t reductions() const { return reductions_; }
  std::map<std::string, double> numbers() const;  ///< For a checkpoint's numbers

 private:
  bool improves(double figure) const;

  PlateauConfig config_;
  bool less_is_better_;
  double best_;
  std::int64_t waited_;    ///< Validations since the last improvement, reduction or cooldown
  std::int64_t cooldown_;  ///< Validations that it lasts
  std::int64_t reductions_;
  std::int64_t compared_;  ///< Step of the last validation; −1: none
};

}  // namespace flotilla
