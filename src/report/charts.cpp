// SPDX-License-Identifier: Apache-2.0
#include "src/report/charts.hpp"

#include <algorithm>

namespace flotilla::report {

namespace {

std::vector<Chart> all_charts() {
  constexpr CurveStyle thin = CurveStyle::thin;
  constexpr CurveStyle strong = CurveStyle::strong;
  return {
      {"loss",
       "Loss",
       "nats",
       false,
       {{"step.loss", "training", thin},
        {"validation.loss", "validation", strong},
        {"validation.average_loss", "validation, averaged weights", strong}}},
      {"accuracy",
       "Accuracy, top 1",
       "fraction",
       false,
       {{"step.accuracy_top1", "training", thin},
        {"validation.accuracy_top1", "validation", strong},
        {"validation.average_accuracy_top1", "validation, averaged weights", strong}}},
      {"binary_accuracy",
       "Accuracy of the labels",
       "fraction",
       false,
       {{"validation.accuracy", "validation", strong},
        {"validation.average_accuracy", "validation, averaged weights", strong}}},
      {"r2",
       "R²",
       "",
       false,
       {{"validation.r2", "validation", strong},
        {"validation.average_r2", "validation, averaged weights", strong}}},
      {"rmse",
       "RMSE, in units of the data",
       "",
       true,
       {{"validation.rmse", "validation", strong},
        {"validation.average_rmse", "validation, averaged weights", strong}}},
      {"auc", "AUC", "", false, {{"step.auc", "training", thin}, {"validation.auc", "validation", strong}}},
      {"learning_rate", "Learning rate", "", true, {{"step.learning_rate", "", strong}}},
      {"samples_per_s", "Throughput", "samples/s", true, {{"step.samples_per_s", "", strong}}},
      {"step_s", "Time of a step", "s", true, {{"step.step_s", "", strong}}},
      {"period", "Period of local SGD", "steps", true, {{"step.period", "", strong}}},
      {"staleness",
       "Staleness of pushes, mean of the workers",
       "updates",
       true,
       {{"step.staleness", "", strong}}},
      {"memory", "Memory of rank 0", "bytes", true, {{"step.memory_bytes", "", strong}}},
  };
}

}  // namespace

std::vector<Chart> charts_of(const std::vector<RunRecord>& runs) {
  std::vector<Chart> charts = all_charts();
  const bool has_numbers =
      std::ranges::any_of(runs, [](const RunRecord& run) { return run.series.contains("validation.rmse"); });
  for (Chart& chart : charts) {
    if (chart.name == "loss" && has_numbers) chart.unit = "";  // nats are of classes
    // Runs of clicks report an accuracy too, which says little where clicks are rare.
    std::erase_if(chart.curves, [&](const ChartCurve& curve) {
      return std::ranges::none_of(runs, [&](const RunRecord& run) {
        const bool clicks = run.series.contains("step.auc") || run.series.contains("validation.auc");
        return run.series.contains(curve.series) && !(clicks && chart.name == "accuracy");
      });
    });
  }
  std::erase_if(charts, [](const Chart& chart) { return chart.curves.empty(); });
  return charts;
}

}  // namespace flotilla::report
