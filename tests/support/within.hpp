// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <source_location>
#include <vector>

namespace flotilla::test {

/// The largest relative error of one rounding to float32 and to float64.
inline constexpr double float_rounding = 0x1p-24;
inline constexpr double double_rounding = 0x1p-53;

/// Whether |actual − expected| ≤ bound, for EXPECT_TRUE and ASSERT_TRUE. All comparisons of the tests that
/// are not exact go through here: where the environment variable FLOTILLA_BOUND_SHARES names a file, every
/// process appends the largest |actual − expected| ÷ bound of each source line to it
/// (scripts/check_bounds.sh). A value that is not a number is within no bound.
testing::AssertionResult within(double actual, double expected, double bound,
                                std::source_location at = std::source_location::current());

/// The same with a bound of `roundings` roundings of `expected`: one for each operation that computes it.
testing::AssertionResult within_float_roundings(double actual, double expected, int roundings,
                                                std::source_location at = std::source_location::current());
testing::AssertionResult within_double_roundings(double actual, double expected, int roundings,
                                                 std::source_location at = std::source_location::current());

/// The same for each element, with one bound for all of them; false if the sizes differ.
testing::AssertionResult within(const std::vector<float>& actual, const std::vector<float>& expected,
                                double bound, std::source_location at = std::source_location::current());

}  // namespace flotilla::test
