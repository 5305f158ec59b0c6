// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device_loops/launch.hpp"
#include "kernels/device_scalar.hpp"
#include "kernels/dropout_mask.hpp"

namespace flotilla::loops {

/// The mask of kernels/dropout_mask.hpp: four values share ten rounds of Philox.
template <class T>
struct DropValues {
  DropoutSpec spec;
  DeviceScalar<std::uint64_t> step;
  std::uint32_t threshold = 0;
  float factor = 1.0F;
  const T* from = nullptr;
  T* to = nullptr;

  /// V is 4, or 1 for the last values.
  template <int V>
  KOKKOS_INLINE_FUNCTION void operator()(Width<V>, std::int64_t first) const {
    const std::array<std::uint32_t, 4> words = dropout_words(spec, step.get(), first / 4);
    Floats<V> values = load_floats<V>(from, first);
    for (int v = 0; v < V; ++v) {
      const bool kept = words[static_cast<std::size_t>(first % 4 + v)] >= threshold;
      values[v] = kept ? factor * values[v] : 0.0F;
    }
    store<V>(values, to, first);
  }
  friend bool operator==(const DropValues&, const DropValues&) = default;
};

template <class Space, class T>
void dropout(const Space& space, const DropoutSpec& spec, DeviceScalar<std::uint64_t> step, const T* from,
             T* to) {
  for_each_pack<4>(
      space, "dropout", spec.input.size(),
      DropValues<T>{spec, step, dropout_threshold(spec), 1.0F / (1.0F - spec.probability), from, to});
}

}  // namespace flotilla::loops
