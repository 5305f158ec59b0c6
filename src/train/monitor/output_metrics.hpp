// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/config/config.hpp"
#include "src/observe/metrics.hpp"

namespace flotilla {

/// Figures of numbers (rmse, mae, r2) or of labels (accuracy, f1). r2 = 1 − Σ (t − y)² / Σ (t − mean of t)²;
/// for targets that are all equal it is 1 if they are predicted exactly and 0 otherwise, as in scikit-learn's
/// r2_score. f1 = 2 TP / (2 TP + FP + FN); 0 where that is 0 / 0.
struct OutputMetrics {
  Figures all;                   ///< mae and r2 are means of those of the outputs, the others are of all sums
  std::vector<Figures> outputs;  ///< Figures of each output
};

/// The sums of which OutputMetrics are made, as doubles that can be exchanged. Samples are added one by one:
/// the sums do not depend on batches, and those of parts merge in the order of the parts.
class OutputSums {
 public:
  explicit OutputSums(const OutputUnits& units);

  /// Adds rows of outputs and of as many targets.
  void add(std::span<const float> outputs, std::span<const float> targets);
  /// Adds the sums of another part, whose samples follow those counted so far.
  void merge(std::span<const double> other);
  std::span<const double> numbers() const { return sums_; }
  OutputMetrics metrics() const;

 private:
  /// Values per output in sums_, after the number of samples: for numbers the mean of the targets, Σ (t −
  /// mean)², Σ |t − y| and Σ (t − y)²; for labels true and false positives and negatives.
  static constexpr std::size_t per_output = 4;

  Figures figures_of(std::span<const double> sums) const;

  OutputUnits units_;
  std::vector<double> sums_;
};

}  // namespace flotilla
