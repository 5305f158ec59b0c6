// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/config/output_units.hpp"

namespace flotilla {

/// Figures of one output, or of all together. Those of numbers and those of labels exclude each other: the
/// others are 0.
struct OutputFigures {
  double rmse = 0.0;  ///< √ of the mean squared error
  double mae = 0.0;   ///< Mean absolute error
  /// 1 − Σ (t − y)² / Σ (t − mean of t)²; of targets that are all equal 1 if they are met, else 0, as
  /// scikit-learn's r2_score has it. Of all outputs: the mean of theirs
  double r2 = 0.0;
  double accuracy = 0.0;  ///< Share of labels that are right at probability 0.5
  double f1 = 0.0;        ///< 2 TP / (2 TP + FP + FN); 0 where that is 0 / 0. Of all outputs: of their sums
};

struct OutputMetrics {
  bool binary = false;
  OutputFigures all;
  std::vector<OutputFigures> outputs;
};

/// The sums of which OutputMetrics are made, as doubles that can be exchanged. Samples are added one by one:
/// the sums do not depend on batches, and those of parts merge in the order of the parts.
class OutputSums {
 public:
  explicit OutputSums(const OutputUnits& units);

  /// Adds rows of outputs and of as many targets.
  void add(std::span<const float> outputs, std::span<const float> targets);
  /// Adds the sums of another part, behind those that are there.
  void merge(std::span<const double> other);
  std::span<const double> numbers() const { return sums_; }
  OutputMetrics metrics() const;

 private:
  /// Numbers of an output in sums_, behind the number of samples: of numbers the mean of the targets, Σ (t −
  /// mean)², Σ |t − y| and Σ (t − y)²; of labels true and false positives and negatives.
  static constexpr std::size_t per_output = 4;

  OutputFigures figures_of(std::span<const double> sums) const;

  OutputUnits units_;
  std::vector<double> sums_;
};

}  // namespace flotilla
