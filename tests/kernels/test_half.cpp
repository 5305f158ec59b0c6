// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/half_rounding.hpp"
#include "kernels/processor/processor.hpp"

// All 65,536 halves, and how floats are rounded to them: tests/mpi/test_wire.cpp.

namespace flotilla {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(Precision, IsHalfForBothFormatsOf16Bits) {
  EXPECT_FALSE(is_half(Precision::float32));
  EXPECT_TRUE(is_half(Precision::float16));
  EXPECT_TRUE(is_half(Precision::bfloat16));
}

TEST(Rounded, KeepsFloats) {
  EXPECT_EQ(half::rounded(Precision::float32, 0.1F), 0.1F);
}

TEST(Rounded, TakesTheNearestHalfAndOfTwoTheEvenOne) {
  // Halves have 11 bits, bfloats 8: above 2048 and 256 every second integer.
  EXPECT_EQ(half::rounded(Precision::float16, 2049.0F), 2048.0F);
  EXPECT_EQ(half::rounded(Precision::float16, 2051.0F), 2052.0F);
  EXPECT_EQ(half::rounded(Precision::float16, -2049.125F), -2050.0F);
  EXPECT_EQ(half::rounded(Precision::bfloat16, 257.0F), 256.0F);
  EXPECT_EQ(half::rounded(Precision::bfloat16, 259.0F), 260.0F);
}

TEST(Rounded, OverflowsToInfinityAndKeepsSubnormals) {
  EXPECT_EQ(half::rounded(Precision::float16, 65519.0F), 65504.0F);
  EXPECT_EQ(half::rounded(Precision::float16, 65520.0F), infinity);
  EXPECT_EQ(half::rounded(Precision::float16, -1e30F), -infinity);
  EXPECT_EQ(half::rounded(Precision::bfloat16, 1e38F), std::ldexp(150.0F, 119));
  EXPECT_EQ(half::rounded(Precision::float16, std::ldexp(1.0F, -24)), std::ldexp(1.0F, -24));
  EXPECT_EQ(half::rounded(Precision::float16, std::ldexp(1.0F, -25)), 0.0F);
  EXPECT_EQ(half::rounded(Precision::float16, std::ldexp(1.25F, -25)), std::ldexp(1.0F, -24));
  EXPECT_TRUE(std::isnan(half::rounded(Precision::float16, std::nanf(""))));
}

TEST(Rounded, IsKnownToTheCompiler) {
  constexpr std::uint16_t one = half::float16_of(1.0F);
  constexpr float smallest = half::float_of_float16(0x0001);
  constexpr std::uint16_t minus_two = half::bfloat16_of(-2.0F);
  constexpr float one_again = half::float_of_bfloat16(0x3F80);

  EXPECT_EQ(one, 0x3C00);
  EXPECT_EQ(smallest, 0x1p-24F);
  EXPECT_EQ(minus_two, 0xC000);
  EXPECT_EQ(one_again, 1.0F);
}

TEST(RoundToBfloat16, RoundsAllKindsOfFloats) {
  std::vector<float> floats;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const std::uint32_t lower : {0x0U, 0x1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU})
      floats.push_back(std::bit_cast<float>(upper << 16 | lower));
  std::vector<std::uint16_t> bits(floats.size());

  round_to_bfloat16(static_cast<std::int64_t>(floats.size()), floats.data(), bits.data());

  for (std::size_t i = 0; i < floats.size(); ++i) {
    const bool may_be_zero = std::fpclassify(floats[i]) == FP_SUBNORMAL && (bits[i] & 0x7FFF) == 0;
    if (may_be_zero) continue;
    ASSERT_EQ(bits[i], half::bfloat16_of(floats[i])) << std::bit_cast<std::uint32_t>(floats[i]);
  }
}

TEST(RoundToBfloat16, WritesNoMoreThanItIsTold) {
  const std::vector<float> floats(50, 1.0F);
  for (std::int64_t count = 0; count < 50; ++count) {
    std::vector<std::uint16_t> bits(50, 9);

    round_to_bfloat16(count, floats.data(), bits.data());

    for (std::int64_t i = 0; i < 50; ++i)
      ASSERT_EQ(bits[static_cast<std::size_t>(i)], i < count ? 0x3F80 : 9) << count;
  }
}

}  // namespace
}  // namespace flotilla
