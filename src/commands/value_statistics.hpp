// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace flotilla {

/// Statistics of values for `flotilla inspect`: of the finite ones, and the number of the others.
class ValueStatistics {
 public:
  void add(std::span<const float> values);
  nlohmann::json as_json() const;  ///< {"mean": …, "rms": …, "min": …, "max": …, "non_finite": …}
  std::vector<std::string> words() const;  ///< Mean, rms, min, max as columns of a table; "-": none
  static std::vector<std::string> headings();

 private:
  /// `value`; empty where there is no finite value.
  std::optional<double> over_finite(double value) const;
  std::optional<double> mean() const;
  std::optional<double> rms() const;

  std::int64_t finite_ = 0;
  std::int64_t non_finite_ = 0;
  double sum_ = 0.0;
  double sum_of_squares_ = 0.0;
  float min_ = std::numeric_limits<float>::infinity();
  float max_ = -std::numeric_limits<float>::infinity();
};

}  // namespace flotilla
