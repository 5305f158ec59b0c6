// SPDX-License-Identifier: Apache-2.0
#include "src/commands/value_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

namespace flotilla {

namespace {

std::string value_text(std::optional<double> value) {
  std::ostringstream text;
  if (value)
    text << std::setprecision(5) << *value;
  else
    text << "-";
  return text.str();
}

nlohmann::json json_of(std::optional<double> value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

}  // namespace

void ValueStatistics::add(std::span<const float> values) {
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++non_finite_;
      continue;
    }
    ++finite_;
    sum_ += value;
    sum_of_squares_ += static_cast<double>(value) * value;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
  }
}

std::optional<double> ValueStatistics::over_finite(double value) const {
  return finite_ > 0 ? std::optional(value) : std::nullopt;
}

std::optional<double> ValueStatistics::mean() const {
  return over_finite(sum_ / static_cast<double>(finite_));
}

std::optional<double> ValueStatistics::rms() const {
  return over_finite(std::sqrt(sum_of_squares_ / static_cast<double>(finite_)));
}

nlohmann::json ValueStatistics::as_json() const {
  return {{"mean", json_of(mean())},
          {"rms", json_of(rms())},
          {"min", json_of(over_finite(min_))},
          {"max", json_of(over_finite(max_))},
          {"non_finite", non_finite_}};
}

std::vector<std::string> ValueStatistics::words() const {
  return {value_text(mean()), value_text(rms()), value_text(over_finite(min_)), value_text(over_finite(max_)),
          std::to_string(non_finite_)};
}

std::vector<std::string> ValueStatistics::headings() {
  return {"mean", "rms", "min", "max", "non-finite"};
}

}  // namespace flotilla
