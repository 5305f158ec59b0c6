// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/gpu/loops/elements.hpp"

namespace flotilla::loops {

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
