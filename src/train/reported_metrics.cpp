// SPDX-License-Identifier: Apache-2.0
#include "src/train/reported_metrics.hpp"

namespace flotilla {

namespace {

/// Of more outputs a line of metrics.jsonl holds the figures of all together only.
constexpr std::size_t most_reported_outputs = 1000;

std::vector<double> of_each(const OutputMetrics& metrics, double OutputFigures::*figure) {
  std::vector<double> values;
  if (metrics.outputs.size() > most_reported_outputs) return values;
  for (const OutputFigures& one : metrics.outputs) values.push_back(one.*figure);
  return values;
}

void put_outputs(const OutputMetrics& outputs, ValidationReport& report) {
  if (outputs.binary) {
    report.accuracy = outputs.all.accuracy;
    report.f1 = outputs.all.f1;
    report.output_accuracy = of_each(outputs, &OutputFigures::accuracy);
    report.output_f1 = of_each(outputs, &OutputFigures::f1);
    return;
  }
  report.rmse = outputs.all.rmse;
  report.mae = outputs.all.mae;
  report.r2 = outputs.all.r2;
  report.output_rmse = of_each(outputs, &OutputFigures::rmse);
  report.output_mae = of_each(outputs, &OutputFigures::mae);
  report.output_r2 = of_each(outputs, &OutputFigures::r2);
}

}  // namespace

void put_metrics(const Evaluation& evaluation, ValidationReport& report) {
  if (evaluation.outputs) return put_outputs(*evaluation.outputs, report);
  report.accuracy_top1 = evaluation.accuracy_top1;
  report.accuracy_top5 = evaluation.accuracy_top5;
  if (!evaluation.clicks) return;
  report.auc = evaluation.clicks->auc;
  report.auc_bound = evaluation.clicks->auc_bound;
  report.pr_auc = evaluation.clicks->pr_auc;
  report.log_loss = evaluation.clicks->log_loss;
  report.calibration = evaluation.clicks->calibration;
}

void put_average(const Evaluation& evaluation, ValidationReport& report) {
  report.average_loss = evaluation.loss;
  if (!evaluation.outputs) {
    report.average_accuracy_top1 = evaluation.accuracy_top1;
    report.average_accuracy_top5 = evaluation.accuracy_top5;
  } else if (evaluation.outputs->binary) {
    report.average_accuracy = evaluation.outputs->all.accuracy;
    report.average_f1 = evaluation.outputs->all.f1;
  } else {
    report.average_rmse = evaluation.outputs->all.rmse;
    report.average_r2 = evaluation.outputs->all.r2;
  }
}

}  // namespace flotilla
