// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/best_validation.hpp"

#include <fmt/format.h>

#include <cmath>

#include "src/train/monitor/click_metrics.hpp"

namespace flotilla {

namespace {

bool is_better(BestMetric metric, double value, double than) {
  const bool less_is_better =
      metric == BestMetric::loss || metric == BestMetric::log_loss || metric == BestMetric::rmse;
  return less_is_better ? value < than : value > than;
}

BestMetric compared_metric(const Config& config) {
  if (config.checkpoint.best != BestMetric::none) return config.checkpoint.best;
  if (predicts_clicks(config.model)) return BestMetric::auc;
  if (config.model.has_classes()) return BestMetric::accuracy_top1;
  return config.model.loss == ModelLoss::binary ? BestMetric::accuracy : BestMetric::r2;
}

}  // namespace

BestValidation::BestValidation(const Config& config, const std::map<std::string, double>& numbers)
    : metric_(compared_metric(config)), patience_(config.train.patience), target_(config.train.target) {
  const auto number = [&](const char* name, double otherwise) {
    const auto found = numbers.find(name);
    return found == numbers.end() ? otherwise : found->second;
  };
  value_ = number("best.value", 0.0);
  step_ = static_cast<std::int64_t>(number("best.step", -1.0));
  epoch_ = static_cast<std::int64_t>(number("best.epoch", 0.0));
  waited_ = static_cast<std::int64_t>(number("best.waited", 0.0));
  compared_ = static_cast<std::int64_t>(number("best.compared", -1.0));
}

double BestValidation::figure(const ValidationReport& report) const {
  const auto of = [](const std::optional<double>& average, const std::optional<double>& plain) {
    return average.value_or(plain.value_or(0.0));
  };
  switch (metric_) {
    case BestMetric::loss: return of(report.average_loss, report.loss);
    case BestMetric::accuracy_top5: return of(report.average_accuracy_top5, report.accuracy_top5);
    case BestMetric::auc: return of({}, report.auc);
    case BestMetric::log_loss: return of({}, report.log_loss);
    case BestMetric::rmse: return of(report.average_rmse, report.rmse);
    case BestMetric::r2: return of(report.average_r2, report.r2);
    case BestMetric::accuracy: return of(report.average_accuracy, report.accuracy);
    case BestMetric::f1: return of(report.average_f1, report.f1);
    case BestMetric::none:
    case BestMetric::accuracy_top1: break;
  }
  return of(report.average_accuracy_top1, report.accuracy_top1);
}

bool BestValidation::add(double figure, const ValidationReport& report) {
  if (report.step <= compared_) return false;
  compared_ = report.step;
  const bool improved = std::isfinite(figure) && (!is_known() || is_better(metric_, figure, value_));
  waited_ = improved ? 0 : waited_ + 1;
  if (!improved) return false;
  value_ = figure;
  step_ = report.step;
  epoch_ = report.epoch;
  return true;
}

bool BestValidation::reached_target() const {
  return target_ > 0.0 && is_known() && !is_better(metric_, target_, value_);
}

void BestValidation::put_into(ValidationReport& report) const {
  if (!is_known()) return;
  report.best_of = std::string(word(metric_));
  report.best = value_;
  report.best_epoch = epoch_;
}

std::string BestValidation::text() const {
  return fmt::format("{} {:.5f} in epoch {}", word(metric_), value_, epoch_);
}

std::map<std::string, double> BestValidation::numbers() const {
  if (compared_ < 0) return {};
  return {{"best.value", value_},
          {"best.step", static_cast<double>(step_)},
          {"best.epoch", static_cast<double>(epoch_)},
          {"best.waited", static_cast<double>(waited_)},
          {"best.compared", static_cast<double>(compared_)}};
}

}  // namespace flotilla
