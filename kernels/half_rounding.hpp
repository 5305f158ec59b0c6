// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/precision.hpp"

/// Floats as 16 bits: rounded to the nearest, ties to even, and back, which is exact. float16 (IEEE 754
/// binary16) ends at 65504: 65520 and beyond become infinite, below 2⁻¹⁴ steps are 2⁻²⁴. bfloat16 has float's
/// range and 8 bits of precision. NaN stays NaN.
///
/// Integers and selects instead of branches: the compiler turns loops over them into vector code on every
/// processor. No intermediate float is denormal, since threads and devices may flush those to zero.
/// constexpr, so that code for devices can call them.
namespace flotilla::half {

inline constexpr std::uint32_t float_infinity = 0x7F800000;

constexpr std::uint16_t float16_of(float value) {
  constexpr std::uint32_t too_large = (127U + 16U) << 23;   // 2¹⁶
  constexpr std::uint32_t min_normal = (127U - 14U) << 23;  // 2⁻¹⁴
  // ½: the spacing of floats there is 2⁻²⁴, that of the least halves, so that the addition rounds.
  constexpr std::uint32_t rounder = (127U - 1U) << 23;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t size = bits & 0x7FFFFFFF;
  const std::uint32_t normal = (size - ((127U - 15U) << 23) + 0xFFF + ((size >> 13) & 1U)) >> 13;
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + std::bit_cast<float>(rounder)) - rounder;
  const std::uint32_t special = size > float_infinity ? 0x7E00U : 0x7C00U;
  std::uint32_t half = size < min_normal ? small : normal;
  half = size >= too_large ? special : half;
  return static_cast<std::uint16_t>(half | ((bits >> 16) & 0x8000U));
}

constexpr float float_of_float16(std::uint16_t half) {
  constexpr std::uint32_t exponent_step = 1U << 23;
  constexpr std::uint32_t infinite = 0x7C00U << 13;
  constexpr std::uint32_t min_normal = (127U - 14U) << 23;
  const std::uint32_t size = (half & 0x7FFFU) << 13;
  const std::uint32_t normal = size + ((127U - 15U) << 23);
  const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size + min_normal) -
                                                           std::bit_cast<float>(min_normal));
  const std::uint32_t special = normal + ((128U - 16U) << 23);
  std::uint32_t bits = size < exponent_step ? small : normal;
  bits = size >= infinite ? special : bits;
  return std::bit_cast<float>(bits | (static_cast<std::uint32_t>(half & 0x8000U) << 16));
}

constexpr std::uint16_t bfloat16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7FFF + ((bits >> 16) & 1U);
  const std::uint32_t quiet_nan = bits | 0x400000U;
  return static_cast<std::uint16_t>((value == value ? rounded : quiet_nan) >> 16);
}

constexpr float float_of_bfloat16(std::uint16_t bfloat) {
  return std::bit_cast<float>(std::uint32_t{bfloat} << 16);
}

/// The value after rounding to this precision and back.
constexpr float rounded(Precision precision, float value) {
  switch (precision) {
    case Precision::float16: return float_of_float16(float16_of(value));
    case Precision::bfloat16: return float_of_bfloat16(bfloat16_of(value));
    case Precision::float32: break;
  }
  return value;
}

}  // namespace flotilla::half
