// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/best_validation.hpp"

#include <fmt/format.h>

#include <algorithm>
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

/// The beginning of the names of a checkpoint's numbers: "best.", "best.2.", …
std::string prefix_of(std::size_t place) {
  return place == 0 ? "best." : fmt::format("best.{}.", place + 1);
}

}  // namespace

BestValidation::BestValidation(const Config& config, const std::map<std::string, double>& numbers)
    : metric_(compared_metric_of(config)),
      patience_(config.train.patience),
      target_(config.train.target),
      max_kept_(static_cast<std::size_t>(config.checkpoint.keep_best)) {
  const auto number = [&](const std::string& name, double otherwise) {
    const auto found = numbers.find(name);
    return found == numbers.end() ? otherwise : found->second;
  };
  while (kept_.size() < max_kept_) {
    const std::string prefix = prefix_of(kept_.size());
    const auto step = static_cast<std::int64_t>(number(prefix + "step", -1.0));
    if (step < 0) break;
    kept_.push_back({number(prefix + "value", 0.0), step});
  }
  epoch_ = static_cast<std::int64_t>(number("best.epoch", 0.0));
  waited_ = static_cast<std::int64_t>(number("best.waited", 0.0));
  compared_ = static_cast<std::int64_t>(number("best.compared", -1.0));
}

std::vector<std::int64_t> BestValidation::steps() const {
  std::vector<std::int64_t> steps;
  for (const Kept& kept : kept_) steps.push_back(kept.step);
  return steps;
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
  const auto place =
      std::ranges::find_if(kept_, [&](const Kept& kept) { return is_better(figure, kept.value); });
  const bool best = std::isfinite(figure) && place == kept_.begin();
  waited_ = best ? 0 : waited_ + 1;
  if (best) epoch_ = report.epoch;
  if (!std::isfinite(figure) || static_cast<std::size_t>(place - kept_.begin()) >= max_kept_) return false;
  kept_.insert(place, {figure, report.step});
  if (kept_.size() > max_kept_) kept_.pop_back();
  return true;
}

bool BestValidation::reached_target() const {
  return target_ > 0.0 && is_known() && !is_better(target_, kept_.front().value);
}

void BestValidation::put_into(ValidationReport& report) const {
  if (!is_known()) return;
  report.best_of = std::string(metric_.key);
  report.best = kept_.front().value;
  report.best_epoch = epoch_;
}

std::string BestValidation::text() const {
  return fmt::format("{} {:.5f} at step {}", metric_.key, kept_.front().value, kept_.front().step);
}

std::map<std::string, double> BestValidation::numbers() const {
  if (compared_ < 0) return {};
  std::map<std::string, double> numbers = {{"best.epoch", static_cast<double>(epoch_)},
                                           {"best.waited", static_cast<double>(waited_)},
                                           {"best.compared", static_cast<double>(compared_)}};
  for (std::size_t place = 0; place < kept_.size(); ++place) {
    numbers[prefix_of(place) + "value"] = kept_[place].value;
    numbers[prefix_of(place) + "step"] = static_cast<double>(kept_[place].step);
  }
  return numbers;
}

}  // namespace flotilla
