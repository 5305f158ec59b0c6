// SPDX-License-Identifier: Apache-2.0
#include "mpi/wire.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/error.hpp"

namespace flotilla::mpi {

namespace {

// Integers and selects instead of branches: the compiler turns the loops below into vector code on every
// processor. Nothing here meets a float that is denormal, which threads may flush to zero.

constexpr std::uint32_t float_infinity = 0x7F800000;
constexpr std::uint32_t exponent_step = 1U << 23;

std::uint16_t half_of(float value) {
  constexpr std::uint32_t too_large = (127U + 16U) << 23;     // 2¹⁶
  constexpr std::uint32_t least_normal = (127U - 14U) << 23;  // 2⁻¹⁴
  // ½: the spacing of floats there is 2⁻²⁴, that of the least halves, so that the addition rounds.
  constexpr std::uint32_t rounder = (127U - 1U) << 23;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t size = bits & 0x7FFFFFFF;
  const std::uint32_t normal = (size - ((127U - 15U) << 23) + 0xFFF + ((size >> 13) & 1U)) >> 13;
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + std::bit_cast<float>(rounder)) - rounder;
  const std::uint32_t special = size > float_infinity ? 0x7E00U : 0x7C00U;
  std::uint32_t half = size < least_normal ? small : normal;
  half = size >= too_large ? special : half;
  return static_cast<std::uint16_t>(half | ((bits >> 16) & 0x8000U));
}

float float_of_half(std::uint16_t half) {
  constexpr std::uint32_t infinite = 0x7C00U << 13;
  constexpr std::uint32_t least_normal = (127U - 14U) << 23;
  const std::uint32_t size = (half & 0x7FFFU) << 13;
  const std::uint32_t normal = size + ((127U - 15U) << 23);
  const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size + least_normal) -
                                                           std::bit_cast<float>(least_normal));
  const std::uint32_t special = normal + ((128U - 16U) << 23);
  std::uint32_t bits = size < exponent_step ? small : normal;
  bits = size >= infinite ? special : bits;
  return std::bit_cast<float>(bits | (static_cast<std::uint32_t>(half & 0x8000U) << 16));
}

std::uint16_t bfloat_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > float_infinity ? quiet_nan : rounded);
}

float float_of_bfloat(std::uint16_t bfloat) {
  return std::bit_cast<float>(std::uint32_t{bfloat} << 16);
}

template <class F>
void encode_each(std::span<const float> values, std::byte* to, F&& code) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = code(values[i]);
    std::memcpy(to + 2 * i, &bits, 2);
  }
}

template <class F>
void decode_each(const std::byte* from, std::size_t count, F&& take) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * i, 2);
    take(i, bits);
  }
}

}  // namespace

std::string_view word_of(Wire wire) {
  switch (wire) {
    case Wire::float16: return "float16";
    case Wire::bfloat16: return "bfloat16";
    case Wire::float32: break;
  }
  return "float32";
}

Wire wire_of(std::string_view word) {
  for (const Wire wire : {Wire::float32, Wire::float16, Wire::bfloat16})
    if (word == word_of(wire)) return wire;
  throw InternalError(cat("no wire \"", word, "\""));
}

std::size_t bytes_per_value(Wire wire) {
  return wire == Wire::float32 ? 4 : 2;
}

void encode(Wire wire, std::span<const float> values, std::byte* __restrict to) {
  switch (wire) {
    case Wire::float32:
      if (!values.empty()) std::memcpy(to, values.data(), values.size_bytes());
      break;
    case Wire::float16: encode_each(values, to, half_of); break;
    case Wire::bfloat16: encode_each(values, to, bfloat_of); break;
  }
}

void decode(Wire wire, const std::byte* __restrict from, std::span<float> values) {
  float* __restrict to = values.data();
  switch (wire) {
    case Wire::float32:
      if (!values.empty()) std::memcpy(to, from, values.size_bytes());
      break;
    case Wire::float16:
      decode_each(from, values.size(),
                  [to](std::size_t i, std::uint16_t bits) { to[i] = float_of_half(bits); });
      break;
    case Wire::bfloat16:
      decode_each(from, values.size(),
                  [to](std::size_t i, std::uint16_t bits) { to[i] = float_of_bfloat(bits); });
      break;
  }
}

void decode_and_add(Wire wire, const std::byte* __restrict from, std::span<float> values) {
  float* __restrict to = values.data();
  switch (wire) {
    case Wire::float32:
      for (std::size_t i = 0; i < values.size(); ++i) {
        float value = 0;
        std::memcpy(&value, from + 4 * i, 4);
        to[i] += value;
      }
      break;
    case Wire::float16:
      decode_each(from, values.size(),
                  [to](std::size_t i, std::uint16_t bits) { to[i] += float_of_half(bits); });
      break;
    case Wire::bfloat16:
      decode_each(from, values.size(),
                  [to](std::size_t i, std::uint16_t bits) { to[i] += float_of_bfloat(bits); });
      break;
  }
}

}  // namespace flotilla::mpi
