// SPDX-License-Identifier: Apache-2.0
#include "src/train/loss_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace flotilla {

namespace {

constexpr float least = 1.0F;
constexpr std::array<const char*, std::tuple_size_v<LossScale::State>> names = {
    "loss_scale", "loss_scale_good", "loss_scale_bad", "skipped_steps"};

}  // namespace

LossScale::LossScale(const LossScaleConfig& config)
    : looks_(true),
      dynamic_(config.kind == "dynamic"),
      scale_(static_cast<float>(dynamic_ ? config.initial : config.value)),
      growth_(static_cast<float>(config.growth)),
      backoff_(static_cast<float>(config.backoff)),
      growth_every_(config.growth_every),
      backoff_every_(config.backoff_every) {}

void LossScale::follow(bool finite) {
  if (!finite) {
    good_ = 0;
    ++skipped_;
    ++in_a_row_;
    if (can_fall() && in_a_row_ >= backoff_every_) {
      scale_ = std::max(least, backoff_ * scale_);
      in_a_row_ = 0;
    }
    return;
  }
  in_a_row_ = 0;
  if (!dynamic_ || ++good_ < growth_every_) return;
  good_ = 0;
  if (const float grown = growth_ * scale_; std::isfinite(grown)) scale_ = grown;
}

std::string LossScale::text() const {
  return dynamic_ ? fmt::format("dynamic, now {}", scale_) : fmt::format("static, {}", scale_);
}

LossScale::State LossScale::state() const {
  return {double{scale_}, static_cast<double>(good_), static_cast<double>(in_a_row_),
          static_cast<double>(skipped_)};
}

void LossScale::set_state(const State& state) {
  if (dynamic_) scale_ = static_cast<float>(state[0]);
  good_ = static_cast<std::int64_t>(state[1]);
  in_a_row_ = static_cast<std::int64_t>(state[2]);
  skipped_ = static_cast<std::int64_t>(state[3]);
}

std::map<std::string, double> LossScale::numbers() const {
  std::map<std::string, double> numbers;
  if (!looks_) return numbers;
  const State values = state();
  for (std::size_t i = 0; i < values.size(); ++i) numbers[names[i]] = values[i];
  return numbers;
}

void LossScale::set_numbers(const std::map<std::string, double>& numbers) {
  State values = state();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (const auto found = numbers.find(names[i]); found != numbers.end()) values[i] = found->second;
  if (looks_) set_state(values);
}

LossScale make_loss_scale(const DeviceConfig& device) {
  return device.precision == "float16" ? LossScale(device.loss_scale) : LossScale();
}

}  // namespace flotilla
