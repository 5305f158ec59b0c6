// SPDX-License-Identifier: Apache-2.0
#include "src/observe/metrics.hpp"

#include <algorithm>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr Metric all_metrics[] = {
    {.key = "loss",
     .unit = "nats",
     .meaning = "mean over the samples, smoothed and weighted as in training; of numbers in units of the "
                "scaled targets",
     .less_is_better = true,
     .averaged = true,
     .shown_averaged = true,
     .chart = {1, "loss", "Loss"}},
    {.key = "accuracy_top1",
     .of = MetricOf::classes,
     .unit = "fraction",
     .meaning = "of the label having the highest logit",
     .compared = true,
     .averaged = true,
     .shown_averaged = true,
     .short_name = "acc1",
     .label = "top-1",
     .chart = {2, "accuracy", "Accuracy, top 1"}},
    {.key = "accuracy_top5",
     .of = MetricOf::classes,
     .unit = "fraction",
     .meaning = "of the label being among the five highest",
     .averaged = true,
     .min_classes = 11,
     .short_name = "acc5",
     .label = "top-5"},
    {.key = "macro_f1",
     .of = MetricOf::classes,
     .meaning = "mean of 2 TP / (2 TP + FP + FN) over the classes; this and the next ones not of clicks",
     .averaged = true,
     .shown = Shown::no,
     .label = "macro F1"},
    {.key = "balanced_accuracy",
     .of = MetricOf::classes,
     .unit = "fraction",
     .meaning = "mean over the classes of their right shares",
     .averaged = true,
     .shown = Shown::no,
     .label = "balanced"},
    {.key = "roc_auc",
     .of = MetricOf::classes,
     .meaning =
         "area under the ROC curve of each class against all others, mean of up to 1000 classes, from bins",
     .averaged = true,
     .shown = Shown::no,
     .label = "ROC AUC"},
    {.key = "roc_auc_bound",
     .of = MetricOf::classes,
     .meaning = "how far roc_auc may be from that without bins",
     .less_is_better = true,
     .shown = Shown::no},
    {.key = "rmse",
     .of = MetricOf::numbers,
     .meaning = "root of the mean squared error over samples and outputs, in units of the data; this and the "
                "next two are of numbers",
     .less_is_better = true,
     .of_each = true,
     .averaged = true,
     .shown = Shown::significant,
     .chart = {5, "rmse", "RMSE, in units of the data", true}},
    {.key = "mae",
     .of = MetricOf::numbers,
     .meaning = "mean absolute error, in units of the data",
     .less_is_better = true,
     .of_each = true,
     .shown = Shown::significant},
    {.key = "r2",
     .of = MetricOf::numbers,
     .meaning = "coefficient of determination, mean over the outputs",
     .compared = true,
     .of_each = true,
     .averaged = true,
     .shown_averaged = true,
     .heading = "R²",
     .chart = {4, "r2", "R²"}},
    {.key = "accuracy",
     .of = MetricOf::labels,
     .unit = "fraction",
     .meaning = "of the labels that are right at probability 0.5; this and the next: binary",
     .compared = true,
     .of_each = true,
     .averaged = true,
     .shown_averaged = true,
     .short_name = "acc",
     .chart = {3, "binary_accuracy", "Accuracy of the labels"}},
    {.key = "f1",
     .of = MetricOf::labels,
     .meaning = "2 TP / (2 TP + FP + FN) over all outputs",
     .of_each = true,
     .averaged = true},
    {.key = "auc",
     .of = MetricOf::clicks,
     .meaning = "area under the ROC curve, of clicks; so are the next ones",
     .compared = true,
     .heading = "AUC",
     .chart = {6, "auc", "AUC"}},
    {.key = "auc_bound",
     .of = MetricOf::clicks,
     .meaning = "how far auc may be from that without bins",
     .less_is_better = true,
     .shown = Shown::no},
    {.key = "pr_auc",
     .of = MetricOf::clicks,
     .meaning = "area under the precision-recall curve",
     .shown = Shown::no,
     .label = "pr-auc"},
    {.key = "log_loss",
     .of = MetricOf::clicks,
     .unit = "nats",
     .meaning = "mean over the samples, without train.label_smoothing",
     .less_is_better = true,
     .label = "log loss"},
    {.key = "calibration",
     .of = MetricOf::clicks,
     .meaning = "clicks predicted per click; null without clicks",
     .shown = Shown::four_digits},
};

}  // namespace

std::span<const Metric> metrics() {
  return all_metrics;
}

const Metric* find_metric(std::string_view key) {
  const auto* const found = std::ranges::find(all_metrics, key, &Metric::key);
  return found == std::end(all_metrics) ? nullptr : found;
}

const Metric& compared_metric(const Figures& figures) {
  // Models of clicks have accuracies too: the last metric in the table decides.
  const Metric* compared = &compared_metric(MetricOf::classes);
  for (const Metric& metric : all_metrics)
    if (metric.compared && figures.contains(metric.key)) compared = &metric;
  return *compared;
}

const Metric& compared_metric(MetricOf of) {
  for (const Metric& metric : all_metrics)
    if (metric.compared && metric.of == of) return metric;
  throw InternalError("no metric compares the validations of these models");
}

Figures reported_averages(const Figures& figures) {
  Figures averages;
  for (const auto& [key, value] : figures)
    if (const Metric* metric = find_metric(key); metric != nullptr && metric->averaged)
      averages.emplace(key, value);
  return averages;
}

}  // namespace flotilla
