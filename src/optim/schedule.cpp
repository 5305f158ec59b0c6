// SPDX-License-Identifier: Apache-2.0
#include "src/optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/error.hpp"

namespace flotilla {

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
  }
  throw InternalError("unknown kind of schedule");
}

}  // namespace flotilla
