// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/output_metrics.hpp"

#include <cmath>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

enum NumberSum : std::size_t { mean_target, squared_deviations, absolute_errors, squared_errors };
enum LabelSum : std::size_t { true_positives, false_positives, false_negatives, true_negatives };

/// Adds one more target to sums over `count` samples (Welford 1962).
void add_number(std::span<double> sums, double count, double target, double error) {
  const double before = target - sums[mean_target];
  sums[mean_target] += before / count;
  sums[squared_deviations] += before * (target - sums[mean_target]);
  sums[absolute_errors] += std::abs(error);
  sums[squared_errors] += error * error;
}

void add_label(std::span<double> sums, bool label, bool predicted) {
  sums[label ? (predicted ? true_positives : false_negatives)
             : (predicted ? false_positives : true_negatives)] += 1.0;
}

/// Means and squared deviations of two sets as those of both (Chan, Golub & LeVeque 1983).
void merge_deviations(std::span<double> sums, double count, std::span<const double> other, double more) {
  const double apart = other[mean_target] - sums[mean_target];
  sums[squared_deviations] += other[squared_deviations] + apart * apart * count * more / (count + more);
  sums[mean_target] += apart * more / (count + more);
}

}  // namespace

OutputSums::OutputSums(const OutputUnits& units) : units_(units), sums_(1 + per_output * units.width()) {}

void OutputSums::add(std::span<const float> outputs, std::span<const float> targets) {
  const std::size_t width = units_.width();
  require(outputs.size() == targets.size() && outputs.size() % width == 0, outputs.size(), " outputs of ",
          width, " for a sample came with ", targets.size(), " targets");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::size_t output = i % width;
    if (output == 0) sums_[0] += 1.0;
    const std::span<double> sums = std::span(sums_).subspan(1 + per_output * output, per_output);
    if (units_.binary()) {
      add_label(sums, targets[i] > 0.5F, outputs[i] > 0.0F);
      continue;
    }
    // Deviations do not depend on the shift, which would cost digits.
    const double target = static_cast<double>(targets[i]) * units_.scales()[output];
    const double error = target - static_cast<double>(outputs[i]) * units_.scales()[output];
    add_number(sums, sums_[0], target, error);
  }
}

void OutputSums::merge(std::span<const double> other) {
  require(other.size() == sums_.size(), "sums of ", other.size(), " numbers cannot be merged with ",
          sums_.size());
  const double more = other[0];
  if (more == 0.0) return;
  for (std::size_t begin = 1; begin < sums_.size(); begin += per_output) {
    const std::span<double> sums = std::span(sums_).subspan(begin, per_output);
    const std::span<const double> others = other.subspan(begin, per_output);
    std::size_t added_from = true_positives;
    if (!units_.binary()) {
      merge_deviations(sums, sums_[0], others, more);
      added_from = absolute_errors;
    }
    for (std::size_t i = added_from; i < per_output; ++i) sums[i] += others[i];
  }
  sums_[0] += more;
}

Figures OutputSums::figures_of(std::span<const double> sums) const {
  const double count = sums_[0];
  if (units_.binary()) {
    const double wrong = sums[false_positives] + sums[false_negatives];
    const double right = sums[true_positives] + sums[true_negatives];
    const double positives = 2.0 * sums[true_positives];
    return {{"accuracy", right / (right + wrong)},
            {"f1", positives > 0.0 ? positives / (positives + wrong) : 0.0}};
  }
  const double errors = sums[squared_errors];
  const double deviations = sums[squared_deviations];
  return {{"rmse", std::sqrt(errors / count)},
          {"mae", sums[absolute_errors] / count},
          {"r2", deviations > 0.0 ? 1.0 - errors / deviations : (errors > 0.0 ? 0.0 : 1.0)}};
}

OutputMetrics OutputSums::metrics() const {
  OutputMetrics metrics;
  const auto width = static_cast<double>(units_.width());
  std::vector<double> all(per_output);
  double mae = 0.0;
  double r2 = 0.0;
  for (std::size_t output = 0; output < units_.width(); ++output) {
    const auto sums = std::span(sums_).subspan(1 + per_output * output, per_output);
    metrics.outputs.push_back(figures_of(sums));
    for (std::size_t i = 0; i < per_output; ++i) all[i] += sums[i];
    if (units_.binary()) continue;
    mae += metrics.outputs.back().at("mae") / width;
    r2 += metrics.outputs.back().at("r2") / width;
  }
  if (units_.binary())
    metrics.all = figures_of(all);
  else
    metrics.all = {{"rmse", std::sqrt(all[squared_errors] / (sums_[0] * width))}, {"mae", mae}, {"r2", r2}};
  return metrics;
}

}  // namespace flotilla
