// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "kernels/gpu/loops/column_sums.hpp"
#include "kernels/layers/batch_norm.hpp"

/// Batch norm forward on rows of channels (formulas: kernels/layers/batch_norm.hpp). Bound by memory: the
/// statistics read 1 value per value, the normalisation reads 1 (2 with a residual) and writes 1, so that
/// float16 moves 6 (8) bytes per value in all.
namespace flotilla::loops {

/// The constants of a lane's channels: the normalisation is fma(x − mean, factor, shift), in the backward
/// pass too, so that both compute the same sign.
template <int V>
struct NormConstants {
  Floats<V> mean;
  Floats<V> factor;  ///< scale / √(variance + ε)
  Floats<V> shift;

  KOKKOS_INLINE_FUNCTION float value(int v, float x) const {
    return std::fma(x - mean[v], factor[v], shift[v]);
  }
};

/// Arrays per channel, plain.
struct NormChannels {
  const float* scale = nullptr;
  const float* shift = nullptr;
  const float* mean = nullptr;
  const float* variance = nullptr;
  float epsilon = 0.0F;

  KOKKOS_INLINE_FUNCTION float slope(std::int64_t channel) const {
    return 1.0F / std::sqrt(variance[channel] + epsilon);
  }
  template <int V>
  KOKKOS_INLINE_FUNCTION NormConstants<V> constants(std::int32_t pack) const {
    NormConstants<V> of;
    for (int v = 0; v < V; ++v) {
      const std::int64_t channel = std::int64_t{pack} * V + v;
      of.mean[v] = mean[channel];
      of.factor[v] = scale[channel] * slope(channel);
      of.shift[v] = shift[channel];
    }
    return of;
  }
  friend bool operator==(const NormChannels&, const NormChannels&) = default;
};

/// Sums of x − p and of its square, p the first row of the tile: they lose no digits where the mean is large.
/// Then the tile's mean m, and the sum of (x − m)².
template <class T, int V>
struct PivotSums {
  const T* x = nullptr;
  KOKKOS_INLINE_FUNCTION void operator()(const Tiles& tiles, const LanePlace& at, std::int64_t tile_row,
                                         Floats<V>& sums, Floats<V>& squares) const {
    const std::int64_t channels = std::int64_t{tiles.packs} * V;
    const std::int64_t column = std::int64_t{at.pack} * V;
    const Floats<V> pivot = load_floats<V>(x, tile_row * channels + column);
    walk<4>(
        tiles, at, [&](std::int64_t row) { return load<V>(x, row * channels + column); },
        [&](std::int64_t, const Pack<T, V>& pack) {
          const Floats<V> values = floats(pack);
          for (int v = 0; v < V; ++v) {
            const float difference = values[v] - pivot[v];
            sums[v] += difference;
            squares[v] += difference * difference;
          }
        });
  }
  KOKKOS_INLINE_FUNCTION void finish(const Tiles& tiles, std::int64_t tile_row, std::int64_t channel,
                                     float& sum, float& square) const {
    const std::int64_t left = tiles.rows - tile_row;
    const float mean = sum / static_cast<float>(left < tiles.block_rows ? left : tiles.block_rows);
    square -= sum * mean;
    sum = x[tile_row * tiles.packs * V + channel].value() + mean;
  }
  friend bool operator==(const PivotSums&, const PivotSums&) = default;
};

/// Joins the tiles' means and squares to mean and biased variance (Chan, Golub & LeVeque 1979), in double,
/// as sums over d = m − the first tile's mean: with n tiles the variance, a difference of two such sums,
/// loses log₂ n bits at most. Then updates the running ones (update_running_statistics).
struct JoinStatistics {
  const float* origin = nullptr;  ///< The first tile's mean of each channel
  std::int32_t row_blocks = 0;
  double full_count = 0.0;  ///< Rows in all tiles but the last
  double last_count = 0.0;
  double share = 0.0;  ///< 1 / rows
  float* mean = nullptr;
  float* variance = nullptr;
  float* running_mean = nullptr;  ///< May be null.
  float* running_variance = nullptr;
  RunningRates rates;

  KOKKOS_INLINE_FUNCTION void add(std::int64_t block, std::int64_t channel, const Floats<2>& tile,
                                  double& first, double& second) const {
    const double count = block + 1 == row_blocks ? last_count : full_count;
    const double apart = static_cast<double>(tile[0]) - static_cast<double>(origin[channel]);
    first += count * apart;
    second += static_cast<double>(tile[1]) + count * apart * apart;
  }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t channel, double first, double second) const {
    const double apart = first * share;
    const double square = second * share - apart * apart;
    const auto of_mean = static_cast<float>(static_cast<double>(origin[channel]) + apart);
    const auto of_variance = static_cast<float>(square < 0.0 ? 0.0 : square);  // NaN stays NaN
    mean[channel] = of_mean;
    variance[channel] = of_variance;
    if (running_mean == nullptr) return;
    running_mean[channel] = std::fma(rates.mean, of_mean, rates.momentum * running_mean[channel]);
    running_variance[channel] =
        std::fma(rates.variance, of_variance, rates.momentum * running_variance[channel]);
  }
  friend bool operator==(const JoinStatistics&, const JoinStatistics&) = default;
};

/// The outputs of a normalisation.
template <class T>
struct Normalised {
  T* y = nullptr;
  std::uint8_t* positive =
      nullptr;  ///< One byte per pack: bit v says whether value v of it is above zero; or null.
  friend bool operator==(const Normalised&, const Normalised&) = default;
};

/// y = fma(x − mean, factor, shift) (+ residual), cut at zero with `relu`. With `both` the residual is
/// normalised and rounded first.
template <class T, int V, bool both = false>
struct Normalise {
  const T* x = nullptr;
  const T* residual = nullptr;  ///< May be null.
  NormChannels of;
  NormChannels of_residual;  ///< Only with `both`.
  bool relu = false;
  Normalised<T> to;

  struct Row {
    Pack<T, V> x, residual;
  };
  KOKKOS_INLINE_FUNCTION void operator()(const Tiles& tiles, const LanePlace& at) const {
    const std::int64_t channels = std::int64_t{tiles.packs} * V;
    const std::int64_t column = std::int64_t{at.pack} * V;
    const NormConstants<V> constants = of.constants<V>(at.pack);
    [[maybe_unused]] NormConstants<V> residual_constants;
    if constexpr (both) residual_constants = of_residual.constants<V>(at.pack);
    walk<both ? 3 : 4>(  // Registers are for twice as many constants.
        tiles, at,
        [&](std::int64_t row) {
          Row read;
          read.x = load<V>(x, row * channels + column);
          if (residual != nullptr) read.residual = load<V>(residual, row * channels + column);
          return read;
        },
        [&](std::int64_t row, const Row& read) {
          Floats<V> values = floats(read.x);
          for (int v = 0; v < V; ++v) values[v] = constants.value(v, values[v]);
          if (residual != nullptr) {
            Floats<V> more = floats(read.residual);
            if constexpr (both) {
              for (int v = 0; v < V; ++v) more[v] = T::of(residual_constants.value(v, more[v])).value();
            }
            for (int v = 0; v < V; ++v) values[v] += more[v];
          }
          if (relu) {
            for (int v = 0; v < V; ++v) values[v] = values[v] < 0.0F ? 0.0F : values[v];  // NaN stays NaN
          }
          Pack<T, V> stored;
          unsigned positive = 0;
          for (int v = 0; v < V; ++v) {
            stored.values[v] = T::of(values[v]);
            positive |= (stored.values[v].value() > 0.0F ? 1U : 0U) << static_cast<unsigned>(v);
          }
          store(stored, to.y, row * channels + column);
          if (to.positive != nullptr)
            to.positive[row * tiles.packs + at.pack] = static_cast<std::uint8_t>(positive);
        });
  }
  friend bool operator==(const Normalise&, const Normalise&) = default;
};

}  // namespace flotilla::loops
