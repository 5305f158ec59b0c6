// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/numbers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include "kernels/error.hpp"
#include "kernels/half_rounding.hpp"

namespace flotilla {

namespace {

static_assert(std::endian::native == std::endian::little, "arrays of the other byte order are reversed");

template <class T>
T number_at(std::span<const std::byte> numbers, std::size_t i) {
  T number;
  std::memcpy(&number, numbers.data() + i * sizeof(T), sizeof(T));
  return number;
}

/// The exact value of a number, float16 as float.
template <class T>
auto value_of_number(T number) {
  if constexpr (std::is_same_v<T, Float16>) {
    return half::float_of_float16(static_cast<std::uint16_t>(number));
  } else {
    return number;
  }
}

template <std::size_t size>
void reverse_numbers(std::span<std::byte> numbers) {
  for (std::size_t i = 0; i + size <= numbers.size(); i += size)
    std::reverse(numbers.data() + i, numbers.data() + i + size);
}

/// A float holds all numbers of these types.
template <class T>
constexpr bool fits_float = sizeof(T) <= 2 || std::is_same_v<T, float>;

}  // namespace

std::int64_t NumberType::bytes() const {
  return with_number(kind, [](auto number) { return static_cast<std::int64_t>(sizeof(number)); });
}

std::string NumberType::text() const {
  static constexpr std::array<const char*, 11> names = {"uint8",   "int8",    "uint16", "int16",
                                                        "uint32",  "int32",   "uint64", "int64",
                                                        "float16", "float32", "float64"};
  return cat(big_endian ? "big-endian " : "", names[static_cast<std::size_t>(kind)]);
}

void to_native_order(NumberType type, std::span<std::byte> numbers) {
  if (!type.big_endian) return;
  switch (type.bytes()) {
    case 2: return reverse_numbers<2>(numbers);
    case 4: return reverse_numbers<4>(numbers);
    case 8: return reverse_numbers<8>(numbers);
    default: return;
  }
}

void to_doubles(NumberType type, std::span<const std::byte> numbers, std::span<double> to) {
  with_number(type.kind, [&]<class T>(T) {
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<double>(value_of_number(number_at<T>(numbers, i)));
  });
}

void to_integers(NumberType type, std::span<const std::byte> numbers, std::span<std::int64_t> to) {
  require(type.is_integer(), "numbers of type ", type.text(), " are no integers");
  with_number(type.kind, [&]<class T>(T) {
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<std::int64_t>(value_of_number(number_at<T>(numbers, i)));
  });
}

void to_floats(NumberType type, std::span<const std::byte> numbers, const ValueScaling& scaling,
               std::span<float> to) {
  const std::size_t groups = scaling.mean.size();
  const std::size_t each = to.size() / groups;
  with_number(type.kind, [&]<class T>(T) {
    using Computed = std::conditional_t<fits_float<T>, float, double>;
    for (std::size_t g = 0; g < groups; ++g) {
      const auto mean = static_cast<Computed>(scaling.mean[g]);
      const auto inverse = static_cast<Computed>(scaling.inverse[g]);
      for (std::size_t i = g * each; i < (g + 1) * each; ++i) {
        const auto value = static_cast<Computed>(value_of_number(number_at<T>(numbers, i)));
        to[i] = static_cast<float>((value - mean) * inverse);
      }
    }
  });
}

std::int64_t find_not_finite(std::span<const float> values) {
  constexpr std::uint32_t infinite = 0x7F800000U;
  constexpr std::uint32_t size_bits = 0x7FFFFFFFU;
  std::uint32_t largest = 0;
  for (const float value : values)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & size_bits);
  if (largest < infinite) return -1;
  const auto is_bad = [](float value) {
    return (std::bit_cast<std::uint32_t>(value) & size_bits) >= infinite;
  };
  return std::ranges::find_if(values, is_bad) - values.begin();
}

PixelScaler::PixelScaler(const PixelScale& scale)
    : factor_(static_cast<float>(1.0 / (255.0 * scale.std))),
      offset_(static_cast<float>(-scale.mean / scale.std)) {}

void PixelScaler::convert(std::span<const std::uint8_t> pixels, float* to) const {
  // Blocks of a fixed size through a local array: the compiler vectorises them without alias checks.
  constexpr std::size_t width = 64;
  std::array<float, width> block;  // not zeroed: written before it is read
  std::size_t done = 0;
  for (; done + width <= pixels.size(); done += width) {
    const std::uint8_t* from = pixels.data() + done;
    for (std::size_t k = 0; k < width; ++k) block[k] = static_cast<float>(from[k]) * factor_ + offset_;
    std::memcpy(to + done, block.data(), sizeof(block));
  }
  for (; done < pixels.size(); ++done) to[done] = static_cast<float>(pixels[done]) * factor_ + offset_;
}

SampleScaling::SampleScaling(NumberType type, std::int64_t groups, const GivenScaling& given) : type_(type) {
  for (const std::size_t count : {given.mean.size(), given.std.size()})
    require(count <= 1 || static_cast<std::int64_t>(count) == groups, count, " means or deviations of ",
            groups, " groups");
  const std::size_t count = std::max({given.mean.size(), given.std.size(), std::size_t{1}});
  const auto at = [](const std::vector<double>& values, std::size_t k, double otherwise) {
    return values.empty() ? otherwise : values[values.size() == 1 ? 0 : k];
  };
  for (std::size_t k = 0; k < count; ++k) {
    mean_.push_back(at(given.mean, k, 0.0));
    inverse_.push_back(1.0 / at(given.std, k, 1.0));
  }
}

SampleScaling SampleScaling::of_pixels(std::int64_t groups, const GivenScaling& given) {
  SampleScaling scaling({}, groups, given);
  for (std::size_t k = 0; k < scaling.mean_.size(); ++k)
    scaling.pixels_.emplace_back(PixelScale{
        .mean = scaling.mean_[k], .std = given.std.empty() ? 1.0 : given.std[given.std.size() == 1 ? 0 : k]});
  return scaling;
}

void SampleScaling::convert(std::span<const std::byte> numbers, std::span<float> to) const {
  if (pixels_.empty()) return to_floats(type_, numbers, {.mean = mean_, .inverse = inverse_}, to);
  const std::span pixels(reinterpret_cast<const std::uint8_t*>(numbers.data()), numbers.size());
  const std::size_t each = to.size() / pixels_.size();
  for (std::size_t k = 0; k < pixels_.size(); ++k)
    pixels_[k].convert(pixels.subspan(k * each, each), to.data() + k * each);
}

bool SampleScaling::changes_nothing() const {
  return pixels_.empty() && type_.kind == NumberType::Kind::f32 &&
         std::ranges::all_of(mean_, [](double mean) { return mean == 0.0; }) &&
         std::ranges::all_of(inverse_, [](double inverse) { return inverse == 1.0; });
}

ByteScaling SampleScaling::bytes(std::int64_t channels) const {
  ByteScaling scaling{.factor = {}, .offset = {}};
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const PixelScaler& scaler = pixels_[pixels_.size() == 1 ? 0 : c];
    scaling.factor[c] = scaler.factor();
    scaling.offset[c] = scaler.offset();
  }
  return scaling;
}

}  // namespace flotilla
