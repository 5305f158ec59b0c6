// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <type_traits>

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

/// Neighbouring values that one lane reads or writes at once: 16 bytes are the widest access of a GPU.
template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T values[V];
};

template <class T>
inline constexpr int full_pack = 16 / static_cast<int>(sizeof(T));

template <int V>
struct Floats {
  float values[V];
  KOKKOS_INLINE_FUNCTION float& operator[](int i) { return values[i]; }
  KOKKOS_INLINE_FUNCTION float operator[](int i) const { return values[i]; }
};

/// `first` is a multiple of V, and `from` starts on 16 bytes.
template <int V, class T>
KOKKOS_INLINE_FUNCTION Pack<T, V> load(const T* from, std::int64_t first) {
  return *reinterpret_cast<const Pack<T, V>*>(from + first);
}

template <class T, int V>
KOKKOS_INLINE_FUNCTION Floats<V> floats(const Pack<T, V>& pack) {
  Floats<V> result;
  for (int v = 0; v < V; ++v) result[v] = pack.values[v].value();
  return result;
}

template <int V, class T>
KOKKOS_INLINE_FUNCTION Floats<V> load_floats(const T* from, std::int64_t first) {
  return floats(load<V>(from, first));
}

template <int V, class T>
KOKKOS_INLINE_FUNCTION void store(const Pack<T, V>& pack, T* to, std::int64_t first) {
  *reinterpret_cast<Pack<T, V>*>(to + first) = pack;
}

template <int V, class T>
KOKKOS_INLINE_FUNCTION void store(const Floats<V>& values, T* to, std::int64_t first) {
  Pack<T, V> pack;
  for (int v = 0; v < V; ++v) pack.values[v] = T::of(values[v]);
  store(pack, to, first);
}

/// A pixel and its pack, of images of these sizes.
struct Pixel {
  std::uint32_t image, row, column, pack;
};
KOKKOS_INLINE_FUNCTION Pixel pixel_of(std::uint32_t i, std::uint32_t rows, std::uint32_t columns,
                                      std::uint32_t packs) {
  const std::uint32_t pixel = i / packs;
  const std::uint32_t line = pixel / columns;
  return {line / rows, line % rows, pixel % columns, i % packs};
}

/// Calls body with the widest pack, up to `widest` values, that a row of `channels` values is whole packs of.
template <int V>
using Width = std::integral_constant<int, V>;
template <int widest, class Body>
void with_width(std::int64_t channels, const Body& body) {
  if (channels % widest == 0) return body(Width<widest>{});
  body(Width<1>{});
}

}  // namespace flotilla::loops
