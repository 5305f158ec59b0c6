// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "src/strategy/strategy.hpp"

namespace flotilla {

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

}  // namespace flotilla
