// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/wire.hpp"

namespace flotilla::mpi {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

std::uint16_t encoded(Wire wire, float value) {
  std::uint16_t bits = 0;
  encode(wire, {&value, 1}, reinterpret_cast<std::byte*>(&bits));
  return bits;
}

float decoded(Wire wire, std::uint16_t bits) {
  float value = 0;
  decode(wire, reinterpret_cast<const std::byte*>(&bits), {&value, 1});
  return value;
}

/// Sign, exponent and fraction by the definition: binary16 has 5 and 10 bits, bfloat16 8 and 7.
double by_definition(Wire wire, std::uint16_t bits) {
  const int fraction_bits = wire == Wire::float16 ? 10 : 7;
  const int bias = wire == Wire::float16 ? 15 : 127;
  const int largest_exponent = 2 * bias + 1;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits & 0x7FFF) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  if (exponent == largest_exponent)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

class HalfWire : public testing::TestWithParam<Wire> {};
INSTANTIATE_TEST_SUITE_P(Wires, HalfWire, testing::Values(Wire::float16, Wire::bfloat16),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST_P(HalfWire, DecodesAll65536Exactly) {
  std::vector<std::uint16_t> all(65'536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> values(all.size());

  decode(GetParam(), reinterpret_cast<const std::byte*>(all.data()), values);

  for (std::size_t i = 0; i < all.size(); ++i) {
    const double expected = by_definition(GetParam(), all[i]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(values[i])) << i;
    } else {
      ASSERT_EQ(bits_of(values[i]), bits_of(static_cast<float>(expected))) << i;
    }
  }
}

TEST_P(HalfWire, EncodesWhatItDecodedToTheSameBits) {
  std::vector<float> values(65'536);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = decoded(GetParam(), static_cast<std::uint16_t>(i));
  std::vector<std::uint16_t> back(values.size());

  encode(GetParam(), values, reinterpret_cast<std::byte*>(back.data()));

  for (std::size_t i = 0; i < back.size(); ++i) {
    if (std::isnan(values[i])) {
      ASSERT_TRUE(std::isnan(decoded(GetParam(), back[i]))) << i;
    } else {
      ASSERT_EQ(back[i], i);
    }
  }
}

TEST_P(HalfWire, RoundsToTheNearestAndTiesToEven) {
  const Wire wire = GetParam();
  for (int sign = 0; sign < 2; ++sign) {
    const auto sign_bit = static_cast<std::uint16_t>(sign << 15);
    for (std::uint16_t low = 0;; ++low) {
      const double below = by_definition(wire, low);
      const double above = by_definition(wire, static_cast<std::uint16_t>(low + 1));
      if (std::isinf(above)) break;
      // Exact in float: one bit more than the wire has; bfloat16's least ones are float's denormals.
      const double half_way = (below + above) / 2;
      const auto tie = static_cast<float>(sign == 0 ? half_way : -half_way);
      const auto even = static_cast<std::uint16_t>(low % 2 == 0 ? low : low + 1);
      const auto up = static_cast<std::uint16_t>(low + 1);

      ASSERT_EQ(encoded(wire, tie), even | sign_bit) << low;
      ASSERT_EQ(encoded(wire, std::nextafter(tie, 0.0F)), low | sign_bit) << low;
      ASSERT_EQ(encoded(wire, std::nextafter(tie, sign == 0 ? infinity : -infinity)), up | sign_bit) << low;
    }
  }
}

TEST_P(HalfWire, AddsInFloat) {
  const std::vector<float> values = {1.0F, -2.5F, 0.0F, 1024.0F, 3.0F};
  std::vector<std::byte> bytes(2 * values.size() + 1);
  std::byte* unaligned = bytes.data() + 1;
  std::vector<float> sums = {1e-6F, 16'777'215.0F, -0.5F, 0.25F, 1e30F};

  encode(GetParam(), values, unaligned);
  decode_and_add(GetParam(), unaligned, sums);

  EXPECT_EQ(sums, (std::vector<float>{1.0F + 1e-6F, 16'777'215.0F - 2.5F, -0.5F, 1024.25F, 1e30F}));
}

TEST(Float16, BecomesInfiniteFrom65520On) {
  EXPECT_EQ(decoded(Wire::float16, encoded(Wire::float16, 65'504.0F)), 65'504.0F);
  EXPECT_EQ(encoded(Wire::float16, std::nextafter(65'520.0F, 0.0F)), 0x7BFF);
  EXPECT_EQ(encoded(Wire::float16, 65'520.0F), 0x7C00);
  EXPECT_EQ(encoded(Wire::float16, -65'520.0F), 0xFC00);
  EXPECT_EQ(encoded(Wire::float16, 1e30F), 0x7C00);
  EXPECT_EQ(encoded(Wire::float16, -std::numeric_limits<float>::infinity()), 0xFC00);
  EXPECT_EQ(encoded(Wire::float16, std::ldexp(1.0F, -25)), 0);
  EXPECT_EQ(encoded(Wire::float16, std::ldexp(1.5F, -25)), 1);
}

TEST(Bfloat16, KeepsTheRangeOfFloat) {
  const float largest = std::numeric_limits<float>::max();

  EXPECT_EQ(encoded(Wire::bfloat16, largest), 0x7F80);  // nearer to what would be the next value
  EXPECT_EQ(decoded(Wire::bfloat16, encoded(Wire::bfloat16, 3e38F)), std::ldexp(226.0F, 120));
  EXPECT_TRUE(
      std::isnan(decoded(Wire::bfloat16, encoded(Wire::bfloat16, std::bit_cast<float>(0x7F800001U)))));
  EXPECT_EQ(encoded(Wire::bfloat16, std::numeric_limits<float>::infinity()), 0x7F80);
}

TEST(Float32, TravelsAsItIs) {
  const std::vector<float> values = {1.0F, -0.0F, 1e-45F, std::numeric_limits<float>::infinity()};
  std::vector<std::byte> bytes(4 * values.size());
  std::vector<float> back(values.size());

  encode(Wire::float32, values, bytes.data());
  decode(Wire::float32, bytes.data(), back);

  EXPECT_EQ(std::memcmp(values.data(), back.data(), 16), 0);
}

}  // namespace
}  // namespace flotilla::mpi
