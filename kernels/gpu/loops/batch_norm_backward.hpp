// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gpu/loops/batch_norm_forward.hpp"

/// Batch norm backward (formulas: kernels/layers/batch_norm.hpp). Values read and written per value: the sums
/// 2 read (with add_relu 2, or 3 with a second gradient, and 1 written), the data 2 read and 1 written:
/// float16 moves 10 bytes per value, 12 (14) with add_relu, and a bit.
namespace flotilla::loops {

/// Sums of dz · (x − mean) and dz; with add_relu dz goes to `dresidual`. `after` is a template parameter so
/// that registers hold only what it needs.
template <class T, int V, AfterNorm after>
struct NormGradientSums {
  const T* x = nullptr;
  const std::uint8_t* positive = nullptr;  ///< Signs for add_relu: one byte per pack.
  const T* dy = nullptr;
  const T* more_dy = nullptr;  ///< Only with add_relu; may be null.
  NormChannels of;
  T* dresidual = nullptr;

  struct Row {
    Pack<T, V> x, dy, more;
    std::uint8_t positive;
  };
  KOKKOS_INLINE_FUNCTION void operator()(const Tiles& tiles, const LanePlace& at, std::int64_t,
                                         Floats<V>& products, Floats<V>& sums) const {
    const std::int64_t channels = std::int64_t{tiles.packs} * V;
    const std::int64_t column = std::int64_t{at.pack} * V;
    const NormConstants<V> constants = of.constants<V>(at.pack);
    walk<2>(
        tiles, at,
        [&](std::int64_t row) {
          const std::int64_t i = row * channels + column;
          Row read;
          read.x = load<V>(x, i);
          read.dy = load<V>(dy, i);
          if constexpr (after == AfterNorm::add_relu) {
            read.positive = positive[row * tiles.packs + at.pack];
            if (more_dy != nullptr) read.more = load<V>(more_dy, i);
          }
          return read;
        },
        [&](std::int64_t row, const Row& read) {
          Pack<T, V> stored;
          for (int v = 0; v < V; ++v) {  // value by value: whole packs of floats would need more registers
            const float value = read.x.values[v].value();
            float dz = read.dy.values[v].value();
            if constexpr (after == AfterNorm::relu) dz = constants.value(v, value) > 0.0F ? dz : 0.0F;
            if constexpr (after == AfterNorm::add_relu) {
              if (more_dy != nullptr) dz += read.more.values[v].value();
              dz = ((read.positive >> v) & 1) != 0 ? dz : 0.0F;
              stored.values[v] = T::of(dz);
            }
            products[v] += dz * (value - constants.mean[v]);
            sums[v] += dz;
          }
          if constexpr (after == AfterNorm::add_relu) store(stored, dresidual, row * channels + column);
        });
  }
  friend bool operator==(const NormGradientSums&, const NormGradientSums&) = default;
};

/// Stores the sums of a channel.
struct StoreNormSums {
  NormChannels of;
  float* scale = nullptr;
  float* shift = nullptr;
  float* scale_gradient = nullptr;  ///< Added to; or null.
  float* shift_gradient = nullptr;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t channel, double product, double sum) const {
    const float of_scale = static_cast<float>(product * static_cast<double>(of.slope(channel)));
    const float of_shift = static_cast<float>(sum);
    scale[channel] = of_scale;
    shift[channel] = of_shift;
    if (scale_gradient == nullptr) return;
    scale_gradient[channel] += of_scale;
    shift_gradient[channel] += of_shift;
  }
  friend bool operator==(const StoreNormSums&, const StoreNormSums&) = default;
};

template <AfterNorm A>
using Then = std::integral_constant<AfterNorm, A>;
template <class Body>
void with_after(AfterNorm after, const Body& body) {
  switch (after) {
    case AfterNorm::nothing: return body(Then<AfterNorm::nothing>{});
    case AfterNorm::relu: return body(Then<AfterNorm::relu>{});
    case AfterNorm::add_relu: return body(Then<AfterNorm::add_relu>{});
  }
}

/// dx = factor · (dz − constant − (x − mean) · steepness): constant = Σ dz / count, steepness = Σ dz x̂ /
/// count / √(variance + ε).
template <class T, int V>
struct NormBackwardData {
  const T* x = nullptr;
  const T* dy = nullptr;
  NormChannels of;
  const float* sum_scale = nullptr;
  const float* sum_shift = nullptr;
  float share = 0.0F;  ///< 1 / count
  bool relu = false;
  T* dx = nullptr;

  struct Row {
    Pack<T, V> x, dy;
  };
  KOKKOS_INLINE_FUNCTION void operator()(const Tiles& tiles, const LanePlace& at) const {
    const std::int64_t channels = std::int64_t{tiles.packs} * V;
    const std::int64_t column = std::int64_t{at.pack} * V;
    const NormConstants<V> constants = of.constants<V>(at.pack);
    Floats<V> constant;
    Floats<V> steepness;
    for (int v = 0; v < V; ++v) {
      constant[v] = sum_shift[column + v] * share;
      steepness[v] = sum_scale[column + v] * share * of.slope(column + v);
    }
    walk<4>(
        tiles, at,
        [&](std::int64_t row) {
          const std::int64_t i = row * channels + column;
          return Row{load<V>(x, i), load<V>(dy, i)};
        },
        [&](std::int64_t row, const Row& read) {
          const Floats<V> values = floats(read.x);
          Floats<V> dz = floats(read.dy);
          for (int v = 0; v < V; ++v) {
            if (relu && !(constants.value(v, values[v]) > 0.0F)) dz[v] = 0.0F;
            const float above = (values[v] - constants.mean[v]) * steepness[v];
            dz[v] = constants.factor[v] * (dz[v] - constant[v] - above);
          }
          store<V>(dz, dx, row * channels + column);
        });
  }
  friend bool operator==(const NormBackwardData&, const NormBackwardData&) = default;
};

}  // namespace flotilla::loops
