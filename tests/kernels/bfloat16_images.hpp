// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/native_precisions.hpp"
#include "kernels/reference/device.hpp"
#include "tests/kernels/image_values.hpp"
#include "tests/support/within.hpp"

/// For tests of layers on images in bfloat16 on the device "cpu", against the reference device.
namespace flotilla::test {

class Bfloat16Images : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_native(Precision::bfloat16)) GTEST_SKIP() << "this processor does not compute in bfloat16";
  }
};

inline std::unique_ptr<Device> cpu_with(int threads) {
  return make_device({.kind = "cpu", .threads = threads, .precision = Precision::bfloat16});
}
/// Rounds where the CPU does.
inline std::unique_ptr<Device> make_oracle() {
  return make_reference_device(Precision::bfloat16, false);
}

/// Integers from −3 to 3: their sums are exact in float32 in any order.
inline std::vector<float> integers(std::int64_t count, std::uint64_t stream) {
  std::vector<float> made = test::values(count, stream, 3.4);
  for (float& value : made) value = std::round(value);
  return made;
}

/// Values that bfloat16 has.
inline std::vector<float> halves(std::int64_t count, std::uint64_t stream) {
  return rounded(Precision::bfloat16, values(count, stream));
}

/// Both are sums that differ by at most `bound`, rounded to bfloat16: where that is less than the spacing of
/// bfloat16 there, they are neighbours at most.
inline void expect_neighbours(const std::vector<float>& actual, const std::vector<float>& expected,
                              double bound, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  std::size_t different = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double apart = std::abs(double{actual[i]} - double{expected[i]});
    const double larger = std::max(std::abs(actual[i]), std::abs(expected[i]));
    const double spacing = larger == 0.0 ? 0.0 : std::ldexp(1.0, std::ilogb(larger) - 7);
    ASSERT_TRUE(test::within(std::max(apart - spacing, 0.0), 0.0, bound)) << what << " at " << i;
    if (apart != 0.0) ++different;
  }
  // Sums that are apart by a part of the spacing seldom fall to either side of a middle; cut off instead of
  // rounded, every other one would.
  EXPECT_TRUE(test::within(static_cast<double>(different), 0.0, static_cast<double>(actual.size()) / 8 + 4))
      << what;
}

}  // namespace flotilla::test
