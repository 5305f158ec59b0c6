// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/number_type.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/half.hpp"

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

}  // namespace flotilla
