// SPDX-License-Identifier: Apache-2.0
#include "src/optim/loss_scale.hpp"

#include <fmt/format.h>

#include <cstddef>

namespace flotilla {

namespace {

constexpr std::array<const char*, std::tuple_size_v<LossScale::State>> state_names = {
    "loss_scale", "loss_scale_good", "loss_scale_bad", "skipped_steps"};

}  // namespace

LossScale::LossScale(const LossScaleConfig& config)
    : enabled_(true),
      rule_{.dynamic = config.kind == LossScaleKind::dynamic,
            .growth = static_cast<float>(config.growth),
            .backoff = static_cast<float>(config.backoff),
            .growth_every = config.growth_every,
            .backoff_every = config.backoff_every} {
  now_.scale = static_cast<float>(rule_.dynamic ? config.initial : config.value);
}

std::string LossScale::text() const {
  return rule_.dynamic ? fmt::format("dynamic, now {}", now_.scale) : fmt::format("static, {}", now_.scale);
}

LossScale::State LossScale::state() const {
  return {double{now_.scale}, static_cast<double>(now_.good), static_cast<double>(now_.consecutive_overflows),
          static_cast<double>(now_.skipped)};
}

void LossScale::set_state(const State& state) {
  if (rule_.dynamic) now_.scale = static_cast<float>(state[0]);
  now_.good = static_cast<std::int64_t>(state[1]);
  now_.consecutive_overflows = static_cast<std::int64_t>(state[2]);
  now_.skipped = static_cast<std::int64_t>(state[3]);
}

std::map<std::string, double> LossScale::numbers() const {
  std::map<std::string, double> numbers;
  if (!enabled_) return numbers;
  const State values = state();
  for (std::size_t i = 0; i < values.size(); ++i) numbers[state_names[i]] = values[i];
  return numbers;
}

void LossScale::set_numbers(const std::map<std::string, double>& numbers) {
  State values = state();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (const auto found = numbers.find(state_names[i]); found != numbers.end()) values[i] = found->second;
  if (enabled_) set_state(values);
}

LossScale make_loss_scale(const DeviceConfig& device) {
  return device.precision == DevicePrecision::float16 ? LossScale(device.loss_scale) : LossScale();
}

}  // namespace flotilla
