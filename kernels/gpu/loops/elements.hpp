// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "kernels/half_rounding.hpp"
#include "kernels/precision.hpp"

/// The types of values in memory. Loops read them as floats, compute in float, and round once when they
/// write. The three types of a device are one struct, the parameter `Elements` of the loops: these convert by
/// integer arithmetic and run anywhere; cuda_loops.cu uses the instructions of a GPU.
namespace flotilla::loops {

struct Float32 {
  static constexpr Precision precision = Precision::float32;
  float bits;
  KOKKOS_INLINE_FUNCTION static Float32 of(float value) { return {value}; }
  KOKKOS_INLINE_FUNCTION float value() const { return bits; }
};

struct PortableFloat16 {
  static constexpr Precision precision = Precision::float16;
  std::uint16_t bits;
  KOKKOS_INLINE_FUNCTION static PortableFloat16 of(float value) { return {half::float16_of(value)}; }
  KOKKOS_INLINE_FUNCTION float value() const { return half::float_of_float16(bits); }
};

struct PortableBfloat16 {
  static constexpr Precision precision = Precision::bfloat16;
  std::uint16_t bits;
  KOKKOS_INLINE_FUNCTION static PortableBfloat16 of(float value) { return {half::bfloat16_of(value)}; }
  KOKKOS_INLINE_FUNCTION float value() const { return half::float_of_bfloat16(bits); }
};

struct PortableElements {
  using Float16 = PortableFloat16;
  using Bfloat16 = PortableBfloat16;
};

/// Calls body with an element of the type that `precision` means.
template <class Elements, class Body>
void with_element(Precision precision, const Body& body) {
  switch (precision) {
    case Precision::float32: return body(Float32{});
    case Precision::float16: return body(typename Elements::Float16{});
    case Precision::bfloat16: return body(typename Elements::Bfloat16{});
  }
}

}  // namespace flotilla::loops
