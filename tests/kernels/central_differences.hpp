// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "kernels/random.hpp"
#include "tests/support/within.hpp"

// The oracle's own gradients against central differences, all in double.

namespace flotilla::test {

using Doubles = std::vector<double>;

/// Uniform in [−1, 1).
inline Doubles random_doubles(std::int64_t count, std::uint64_t stream) {
  Random random(1, random_data, stream);
  Doubles values(static_cast<std::size_t>(count));
  for (double& value : values) value = 2.0 * random.uniform() - 1.0;
  return values;
}

/// Σ a · b, which turns all outputs into a scalar function.
inline double product(const Doubles& a, const Doubles& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Expects that `gradient` is (f(v + h) − f(v − h)) / 2h for every value of v. With h = 1e-5 the error is
/// about h² f''' = 1e-10 and eps / h = 2e-11 of values near 1.
inline void expect_central_differences(const Doubles& gradient, Doubles& v, const std::function<double()>& f,
                                       double bound, const char* what) {
  constexpr double h = 1e-5;
  ASSERT_EQ(gradient.size(), v.size());
  for (std::size_t i = 0; i < v.size(); ++i) {
    const double middle = v[i];
    v[i] = middle + h;
    const double above = f();
    v[i] = middle - h;
    const double below = f();
    v[i] = middle;
    EXPECT_TRUE(within(gradient[i], (above - below) / (2.0 * h), bound)) << what << " " << i;
  }
}

}  // namespace flotilla::test
