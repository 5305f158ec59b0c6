// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "src/config/config.hpp"

namespace flotilla {

/// The progress of training. Samples are counted, not steps, so that another number of workers at the same
/// global batch sees the same learning rates.
struct Progress {
  double epochs = 0.0;        ///< Samples consumed before this step ÷ samples of an epoch
  double total_epochs = 0.0;  ///< `epochs` at the end of the run
};

/// The learning rate as a pure function of progress. With base = learning_rate (× global_batch ÷ base_batch
/// with scale_with_batch: Goyal et al. 2017), e = epochs, w = warmup_epochs, E = total_epochs:
///
///     e < w      warmup_from + (base − warmup_from) · e / w
///     constant   base
///     piecewise  base · factor^(number of milestones ≤ e)
///     cosine     final + (base − final) · (1 + cos(π t)) / 2,  t = (e − w) / (E − w)
///     linear     base + (final − base) · t
///
/// cosine is SGDR's (Loshchilov & Hutter 2017). The warm-up ends at the base; cosine and linear start there
/// and reach `final` exactly at E (that of Fleet does not: docs/fleet.md, "Images"). warmup_from
/// and final are never scaled with the batch.
class Schedule {
 public:
  /// @param global_batch samples of one optimizer step over all workers.
  Schedule(const ScheduleConfig& config, std::int64_t global_batch);
  double base() const { return base_; }  ///< After the warm-up
  double at(const Progress& progress) const;

 private:
  double decayed(const Progress& progress) const;

  ScheduleConfig config_;
  double base_;
};

}  // namespace flotilla
