// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace flotilla::test {

double rounding_error(Precision precision) {
  switch (precision) {
    case Precision::float32: return 0x1p-24;
    case Precision::float16: return 0x1p-11;
    case Precision::bfloat16: return 0x1p-8;
  }
  return 1.0;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (a.size() != b.size()) return infinite;
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return infinite;
    if (a[i] == b[i] || std::isnan(a[i])) continue;
    largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  }
  return largest;
}

}  // namespace flotilla::test
