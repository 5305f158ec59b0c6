// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/best_validation.hpp"

#include <fmt/format.h>

#include <cmath>

#include "kernels/error.hpp"
#include "src/train/monitor/click_metrics.hpp"

namespace flotilla {

namespace {

const Metric& compared_metric_of(const Config& config) {
  if (config.checkpoint.best != BestMetric::none) {
    const Metric* const metric = find_metric(word(config.checkpoint.best));
    require(metric != nullptr, "checkpoint.best names no metric");
    return *metric;
  }
  if (predicts_clicks(config.model)) return compared_metric(MetricOf::clicks);
  if (config.model.has_classes()) return compared_metric(MetricOf::classes);
  return compared_metric(config.model.loss == ModelLoss::binary ? MetricOf::labels : MetricOf::numbers);
}

}  // namespace

BestValidation::BestValidation(const Config& config, const std::map<std::string, double>& numbers)
    : metric_(compared_metric_of(config)), patience_(config.train.patience), target_(config.train.target) {
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
  for (const Figures* figures : {&report.averages, &report.figures})
    if (const auto found = figures->find(metric_.key); found != figures->end()) return found->second;
  return 0.0;
}

bool BestValidation::is_better(double value, double than) const {
  return metric_.less_is_better ? value < than : value > than;
}

bool BestValidation::add(double figure, const ValidationReport& report) {
  if (report.step <= compared_) return false;
  compared_ = report.step;
  const bool improved = std::isfinite(figure) && (!is_known() || is_better(figure, value_));
  waited_ = improved ? 0 : waited_ + 1;
  if (!improved) return false;
  value_ = figure;
  step_ = report.step;
  epoch_ = report.epoch;
  return true;
}

bool BestValidation::reached_target() const {
  return target_ > 0.0 && is_known() && !is_better(target_, value_);
}

void BestValidation::put_into(ValidationReport& report) const {
  if (!is_known()) return;
  report.best_of = std::string(metric_.key);
  report.best = value_;
  report.best_epoch = epoch_;
}

std::string BestValidation::text() const {
  return fmt::format("{} {:.5f} at step {}", metric_.key, value_, step_);
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
