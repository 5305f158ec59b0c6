// SPDX-License-Identifier: Apache-2.0
#include "src/optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// PyTorch's eps of ReduceLROnPlateau: smaller changes of the learning rate are none.
constexpr double min_reduction = 1e-8;

/// Goes from `from` at t = 0 to `to` at t = 1 along half a cosine.
double cosine_between(double from, double to, double t) {
  return std::lerp(to, from, (1.0 + std::cos(std::numbers::pi * std::clamp(t, 0.0, 1.0))) / 2.0);
}

}  // namespace

Schedule::Schedule(const ScheduleConfig& config, std::int64_t global_batch)
    : config_(config), base_(config.learning_rate) {
  require(global_batch > 0, "a global batch must be positive, got ", global_batch);
  if (config.scale_with_batch) {
    require(config.base_batch > 0, "schedule.base_batch must be positive, got ", config.base_batch);
    base_ *= static_cast<double>(global_batch) / static_cast<double>(config.base_batch);
  }
}

double Schedule::at(const Progress& progress) const {
  if (progress.epochs < config_.warmup_epochs) {
    return std::lerp(config_.warmup_from, base_, progress.epochs / config_.warmup_epochs);
  }
  return decayed(progress);
}

double Schedule::decayed(const Progress& progress) const {
  // A run that ends with its warm-up has nothing left to decay over.
  const double span = progress.total_epochs - config_.warmup_epochs;
  const double t = span > 0.0 ? std::clamp((progress.epochs - config_.warmup_epochs) / span, 0.0, 1.0) : 0.0;
  switch (config_.kind) {
    case ScheduleKind::constant: return base_;
    case ScheduleKind::piecewise: {
      const auto passed = std::ranges::count_if(
          config_.milestones, [&](double milestone) { return milestone <= progress.epochs; });
      return base_ * std::pow(config_.factor, static_cast<double>(passed));
    }
    case ScheduleKind::cosine:
      return std::lerp(config_.final_learning_rate, base_, (1.0 + std::cos(std::numbers::pi * t)) / 2.0);
    case ScheduleKind::linear: return std::lerp(base_, config_.final_learning_rate, t);
    case ScheduleKind::plateau: return reduced(progress.reductions);
    case ScheduleKind::one_cycle: return cycled(progress);
  }
  throw InternalError("unknown kind of schedule");
}

double Schedule::reduced(std::int64_t reductions) const {
  double rate = base_;
  for (std::int64_t i = 0; i < reductions; ++i) {
    const double next = std::max(rate * config_.factor, config_.final_learning_rate);
    if (rate - next <= min_reduction) break;
    rate = next;
  }
  return rate;
}

double Schedule::cycled(const Progress& progress) const {
  const auto step = static_cast<double>(progress.step);
  const auto total = static_cast<double>(progress.total_steps);
  const double top = config_.rise * total - 1.0;
  const double first = base_ / config_.initial_divisor;
  if (step <= top && top > 0.0) return cosine_between(first, base_, step / top);
  const double fall = total - 1.0 - top;
  return cosine_between(base_, first / config_.final_divisor, fall > 0.0 ? (step - top) / fall : 0.0);
}

Plateau::Plateau(const PlateauConfig& config, bool less_is_better,
                 const std::map<std::string, double>& numbers)
    : config_(config), less_is_better_(less_is_better) {
  const auto number = [&](const char* name, double otherwise) {
    const auto found = numbers.find(name);
    return found == numbers.end() ? otherwise : found->second;
  };
  const double worst = std::numeric_limits<double>::infinity();
  best_ = number("plateau.best", less_is_better ? worst : -worst);
  waited_ = static_cast<std::int64_t>(number("plateau.waited", 0.0));
  cooldown_ = static_cast<std::int64_t>(number("plateau.cooldown", 0.0));
  reductions_ = static_cast<std::int64_t>(number("plateau.reductions", 0.0));
  compared_ = static_cast<std::int64_t>(number("plateau.compared", -1.0));
}

bool Plateau::improves(double figure) const {
  const double threshold = config_.threshold;
  if (config_.threshold_kind == ThresholdKind::absolute)
    return less_is_better_ ? figure < best_ - threshold : figure > best_ + threshold;
  return less_is_better_ ? figure < best_ * (1.0 - threshold) : figure > best_ * (1.0 + threshold);
}

bool Plateau::add(double figure, std::int64_t step) {
  if (step <= compared_) return false;
  compared_ = step;
  if (improves(figure)) {
    best_ = figure;
    waited_ = 0;
  } else {
    ++waited_;
  }
  if (cooldown_ > 0) {
    --cooldown_;
    waited_ = 0;
  }
  if (waited_ <= config_.patience) return false;
  ++reductions_;
  cooldown_ = config_.cooldown;
  waited_ = 0;
  return true;
}

std::map<std::string, double> Plateau::numbers() const {
  if (compared_ < 0) return {};
  std::map<std::string, double> numbers = {{"plateau.waited", static_cast<double>(waited_)},
                                           {"plateau.cooldown", static_cast<double>(cooldown_)},
                                           {"plateau.reductions", static_cast<double>(reductions_)},
                                           {"plateau.compared", static_cast<double>(compared_)}};
  if (std::isfinite(best_)) numbers.emplace("plateau.best", best_);
  return numbers;
}

}  // namespace flotilla
