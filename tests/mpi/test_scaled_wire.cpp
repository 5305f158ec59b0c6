// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "kernels/random.hpp"
#include "mpi/core/scaled_wire.hpp"
#include "tests/support/within.hpp"

// Round trips of the wires with scales, against the values of each format by its definition.

namespace flotilla::mpi {
namespace {

/// The values that a code can have in units of the step, in ascending order.
std::vector<double> magnitudes(Wire wire) {
  std::vector<double> all;
  if (wire == Wire::int8) {
    for (int code = 0; code <= 127; ++code) all.push_back(code);
  } else if (wire == Wire::fp4) {
    all = {0, 0.25, 0.5, 1, 2, 4, 8, 16};
  } else {
    for (int fraction = 0; fraction < 8; ++fraction) all.push_back(std::ldexp(fraction, -9));
    for (int exponent = -6; exponent <= 8; ++exponent)
      for (int eighths = 8; eighths < 16; ++eighths)
        if (exponent < 8 || eighths < 15) all.push_back(std::ldexp(eighths, exponent - 3));
  }
  return all;
}

using Rows = std::map<std::string, std::function<float(Random&)>>;

const Rows& rows() {
  const auto between = [](double low, double high) {
    return [low, high](Random& random) { return static_cast<float>(low + (high - low) * random.uniform()); };
  };
  static const Rows all = {
      {"random", [](Random& random) { return static_cast<float>(random.normal()); }},
      {"small", [](Random& random) { return static_cast<float>(1e-20 * random.normal()); }},
      {"constant", between(0.3, 0.3)},
      {"zero", between(0.0, 0.0)},
      {"huge", between(-3.4028234e38, 3.4028234e38)},
      {"largest", [](Random&) { return std::numeric_limits<float>::max(); }},
      {"denormal", between(-1.1e-38, 1.1e-38)},
      {"few denormals", between(-1e-43, 1e-43)},
      {"mixed", [](Random& random) {
         return static_cast<float>(std::ldexp(random.normal(), static_cast<int>(random.below(30)) - 15));
       }}};
  return all;
}

std::vector<float> make_row(const std::string& name, std::size_t count) {
  Random random(7, random_data, count);
  std::vector<float> values(count);
  for (float& value : values) value = rows().at(name)(random);
  return values;
}

struct Trip {
  std::vector<std::byte> bytes;
  std::vector<float> decoded, errors;
};

Trip trip(Wire wire, std::vector<float> values, const RoundingDraws& draws, std::uint64_t element = 0,
          std::vector<float> errors = {}) {
  errors.resize(values.size());
  Trip out{std::vector<std::byte>(encoded_bytes(wire, values.size())), std::vector<float>(values.size()),
           errors};
  encode_scaled(wire, {values, out.errors, element}, draws, out.bytes.data());
  decode(wire, out.bytes.data(), out.decoded);
  return out;
}

class ScaledWire : public testing::TestWithParam<Wire> {};
INSTANTIATE_TEST_SUITE_P(Wires, ScaledWire, testing::Values(Wire::int8, Wire::fp8, Wire::fp4),
                         [](const auto& test) { return std::string(name(test.param)); });

const std::vector<std::size_t> sizes = {0, 1, 2, 7, 255, 256, 257, 1009};

/// Steps of the format, as parts of 1, by which `decoded` is off; below 0: it is neither neighbour.
double steps_off(const std::vector<double>& codes, double value, double decoded, double unit) {
  const double size = std::abs(value) / unit;
  auto above = std::ranges::lower_bound(codes, size);
  if (above == codes.end()) --above;
  const double low = above == codes.begin() ? 0.0 : *(above - 1);
  const double gap = above == codes.begin() ? codes[1] : *above - low;
  // A step below the smallest denormal float is finer than what float32 can hold.
  const double off = std::max(0.0, std::abs(decoded - value) - 0x1p-150);
  return off / (gap * unit);
}

TEST_P(ScaledWire, RoundsWithinHalfAStepToTheNearestAndOneStepByDraws) {
  const std::vector<double> codes = magnitudes(GetParam());
  for (const auto& [row, make] : rows()) {
    for (const std::size_t count : sizes) {
      const std::vector<float> values = make_row(row, count);
      for (const bool stochastic : {false, true}) {
        const Trip out = trip(GetParam(), values, stochastic ? RoundingDraws(1, 2, 3) : RoundingDraws());

        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t block = i / scale_block * scale_block;
          double largest = 0;
          for (std::size_t j = block; j < std::min(count, block + scale_block); ++j)
            largest = std::max(largest, std::abs(static_cast<double>(values[j])));
          if (largest == 0.0) {
            ASSERT_EQ(out.decoded[i], 0.0F);
            continue;
          }
          const double off = steps_off(codes, values[i], out.decoded[i], largest / codes.back());
          ASSERT_LE(off, stochastic ? 1.0001 : 0.5001)
              << row << " " << count << " " << i << ": " << values[i] << " became " << out.decoded[i];
          ASSERT_FALSE(std::signbit(out.decoded[i]) != std::signbit(values[i]) && out.decoded[i] != 0.0F);
        }
      }
    }
  }
}

TEST_P(ScaledWire, KeepsWhatItsValuesCanBeExactly) {
  std::vector<float> values;
  for (const double magnitude : magnitudes(GetParam())) {
    values.push_back(static_cast<float>(magnitude));
    values.push_back(static_cast<float>(-magnitude));
  }
  values.resize(std::min(values.size(), scale_block));
  values[0] = static_cast<float>(magnitudes(GetParam()).back());
  for (std::uint64_t step = 0; step < 50; ++step) {
    const Trip out = trip(GetParam(), values, step == 0 ? RoundingDraws() : RoundingDraws(1, step, 0));

    EXPECT_EQ(out.decoded, values);
    EXPECT_EQ(std::ranges::count(out.errors, 0.0F), std::ssize(values));
  }
}

TEST_P(ScaledWire, SendsAndKeepsTogetherWhatWasGiven) {
  for (const std::string row : {"random", "mixed", "small"}) {
    const std::vector<float> values = make_row(row, 1009);
    std::vector<float> before = make_row(row, 1010);
    before.pop_back();
    for (const bool stochastic : {false, true}) {
      const Trip out =
          trip(GetParam(), values, stochastic ? RoundingDraws(5, 6, 0) : RoundingDraws(), 11, before);

      for (std::size_t i = 0; i < values.size(); ++i) {
        const double given = static_cast<double>(values[i]) + before[i];
        const double kept = static_cast<double>(out.decoded[i]) + out.errors[i];
        const float largest = std::max({std::abs(values[i]), std::abs(before[i]), std::abs(out.decoded[i])});
        ASSERT_TRUE(test::within(kept, given, 1e-6 * largest)) << row << i;
      }
    }
  }
}

TEST_P(ScaledWire, GivesTheSenderOfASumTheBitsThatOthersDecode) {
  std::vector<float> sum = make_row("random", 777);
  const std::vector<float> exact = sum;
  std::vector<float> errors(777, 0.125F);
  std::vector<std::byte> bytes(encoded_bytes(GetParam(), 777));
  std::vector<float> decoded(777);

  encode_scaled_sum(GetParam(), {sum, errors, 0}, RoundingDraws(1, 2, 3), bytes.data());
  decode(GetParam(), bytes.data(), decoded);

  EXPECT_EQ(sum, decoded);
  for (std::size_t i = 0; i < sum.size(); ++i)
    ASSERT_TRUE(test::within(errors[i], 0.125 + exact[i] - sum[i], 1e-6));
}

TEST_P(ScaledWire, AddsWhatItDecodes) {
  const Trip out = trip(GetParam(), make_row("random", 300), {});
  std::vector<float> sums(300, 0.5F);

  decode_and_add(GetParam(), out.bytes.data(), sums);

  for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(sums[i], 0.5F + out.decoded[i]);
}

TEST_P(ScaledWire, TellsOfARowThatIsNotFinite) {
  for (const float wrong :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values = make_row("random", 3 * scale_block);
    values[scale_block + 17] = wrong;
    const Trip out = trip(GetParam(), values, {}, 0, std::vector<float>(values.size(), 0.25F));

    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool bad = i / scale_block == 1;
      ASSERT_EQ(std::isnan(out.decoded[i]), bad);
      ASSERT_TRUE(std::isfinite(out.errors[i]));
      if (bad) {
        ASSERT_EQ(out.errors[i], 0.25F);
      }
    }
    std::vector<float> errors(values.size(), 0.25F);
    std::vector<std::byte> bytes(out.bytes.size());
    encode_scaled_sum(GetParam(), {values, errors, 0}, {}, bytes.data());
    EXPECT_TRUE(std::isnan(values[scale_block]));
    EXPECT_EQ(errors[scale_block], 0.25F);
  }
}

TEST_P(ScaledWire, DrawsByNothingButSeedStepStreamAndElement) {
  const std::vector<float> values = make_row("random", 4 * scale_block);
  const auto rounded = [&](std::uint64_t seed, std::uint64_t step, std::uint32_t stream) {
    return trip(GetParam(), values, RoundingDraws(seed, step, stream)).decoded;
  };
  const std::vector<float> whole = rounded(1, 2, 3);

  EXPECT_EQ(rounded(1, 2, 3), whole);
  EXPECT_NE(rounded(2, 2, 3), whole);
  EXPECT_NE(rounded(1, 3, 3), whole);
  EXPECT_NE(rounded(1, 2, 4), whole);
  // Block by block, in any order, as other threads or buckets would do it.
  for (std::size_t block = 4; block-- > 0;) {
    const std::size_t at = block * scale_block;
    const auto first = static_cast<std::ptrdiff_t>(at);
    const std::vector<float> part(values.begin() + first, values.begin() + first + scale_block);
    const std::vector<float> decoded = trip(GetParam(), part, RoundingDraws(1, 2, 3), at).decoded;
    EXPECT_TRUE(std::ranges::equal(decoded, std::span(whole).subspan(at, scale_block)));
    if (block > 0) {
      EXPECT_NE(trip(GetParam(), part, RoundingDraws(1, 2, 3), 0).decoded, decoded);
    }
  }
}

TEST_P(ScaledWire, DrawsWithoutBias) {
  constexpr int draws = 4000;
  std::vector<float> values = make_row("random", 64);
  values[0] = 4.0F;
  std::vector<double> mean(values.size());
  for (int step = 0; step < draws; ++step) {
    const Trip out = trip(GetParam(), values, RoundingDraws(1, static_cast<std::uint64_t>(step), 0));
    for (std::size_t i = 0; i < values.size(); ++i) mean[i] += static_cast<double>(out.decoded[i]) / draws;
  }
  const std::vector<double> codes = magnitudes(GetParam());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double size = std::abs(values[i]) / 4.0 * codes.back();
    const auto above = std::max(codes.begin() + 1, std::ranges::lower_bound(codes, size));
    const double gap = (*above - *(above - 1)) * 4.0 / codes.back();
    // Of a draw between two neighbours the deviation is at most half their distance: five of the mean's.
    const double most = 5 * 0.5 * gap / std::sqrt(draws);
    EXPECT_TRUE(test::within(mean[i], values[i], most)) << i;
  }
}

TEST(ScaledWires, HaveTheBytesOfTheirTable) {
  EXPECT_EQ(encoded_bytes(Wire::int8, 0), 0U);
  EXPECT_EQ(encoded_bytes(Wire::int8, 1), 5U);
  EXPECT_EQ(encoded_bytes(Wire::fp8, 256), 260U);
  EXPECT_EQ(encoded_bytes(Wire::fp8, 257), 265U);
  EXPECT_EQ(encoded_bytes(Wire::fp4, 7), 8U);
  EXPECT_EQ(encoded_bytes(Wire::fp4, 1009), 505U + 16U);
  EXPECT_EQ(encoded_bytes(Wire::float16, 7), 14U);
  EXPECT_EQ(encoded_bytes(Wire::float32, 7), 28U);
}

}  // namespace
}  // namespace flotilla::mpi
