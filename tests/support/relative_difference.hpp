// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace flotilla::test {

/// ‖a − b‖ ÷ ‖b‖; infinite if their sizes differ.
inline double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double off = double{a[i]} - double{b[i]};
    difference += off * off;
    norm += double{b[i]} * double{b[i]};
  }
  return std::sqrt(difference / norm);
}

}  // namespace flotilla::test
