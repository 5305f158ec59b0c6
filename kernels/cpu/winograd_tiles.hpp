// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/lanes.hpp"
#include "kernels/processor/required_features.hpp"

/// The arithmetic of Winograd's algorithm F(4x4, 3x3) on tiles and panels (Lavin & Gray 2015, interpolation
/// points 0, ±1, ±2 and ∞). A tile of 4 x 4 outputs takes 6 x 6 inputs, and Y = Aᵀ [ (G w Gᵀ) ⊙ (Bᵀ x B) ] A;
/// summed over the input channels, the products ⊙ are 36 matrix products, one for each point. L is the number
/// of lanes of an image's blocks.
namespace flotilla::winograd {

inline constexpr std::int64_t tile = 4;           // outputs along each axis
inline constexpr std::int64_t window = 6;         // inputs along each axis
inline constexpr std::int64_t points = 36;        // transformed values of a tile
inline constexpr std::int64_t kernel_values = 9;  // weights of a pair of channels
/// Floats between the ends and the beginnings of arrays whose sizes are powers of two: 36 arrays at such
/// distances from each other would share the same few sets of a cache.
inline constexpr std::int64_t gap = 16;

/// Floats of a vector: a register of AVX-512, or of AVX2 and a pair of NEON's.
template <int L>
inline constexpr int vector_lanes = std::min(L, required_feature::avx512f ? 16 : 8);

/// Tiles by vectors that a product keeps in registers: 12 x 2 of 32, 6 x 2 of 16 registers.
template <int V>
inline constexpr int tile_rows = V == 16 ? 12 : 6;
/// Channels by vectors that a product for weights' gradients keeps in registers. Divides the lanes.
template <int V>
inline constexpr int channel_rows = V == 16 ? 8 : 4;

/// The addresses of the one or two vectors of a panel.
template <class Float>
using Vectors = std::array<Float*, 2>;

/// Bᵀ d: 6 inputs, `stride` apart, to 6 points.
template <class T>
inline void transform_input(const T* d, std::int64_t stride, T* out) {
  const T d0 = d[0], d1 = d[stride], d2 = d[2 * stride], d3 = d[3 * stride], d4 = d[4 * stride],
          d5 = d[5 * stride];
  const T even = d4 - 4 * d2, odd = d3 - 4 * d1, even2 = d4 - d2, odd2 = 2 * (d3 - d1);
  out[0] = 4 * d0 - 5 * d2 + d4;
  out[1] = even + odd;
  out[2] = even - odd;
  out[3] = even2 + odd2;
  out[4] = even2 - odd2;
  out[5] = 4 * d1 - 5 * d3 + d5;
}

/// Aᵀ m: 6 points to 4 outputs.
template <class T>
inline void transform_output(const T* m, std::int64_t stride, T* out) {
  const T even = m[stride] + m[2 * stride], odd = m[stride] - m[2 * stride];
  const T even2 = m[3 * stride] + m[4 * stride], odd2 = m[3 * stride] - m[4 * stride];
  out[0] = m[0] + even + even2;
  out[1] = odd + 2 * odd2;
  out[2] = even + 4 * even2;
  out[3] = odd + 8 * odd2 + m[5 * stride];
}

/// A y: 4 gradients of outputs to 6 points.
template <class T>
inline void transform_output_gradient(const T* y, std::int64_t stride, T* out) {
  const T y0 = y[0], y1 = y[stride], y2 = y[2 * stride], y3 = y[3 * stride];
  const T even = y0 + y2, odd = y1 + y3, even2 = y0 + 4 * y2, odd2 = 2 * y1 + 8 * y3;
  out[0] = y0;
  out[1] = even + odd;
  out[2] = even - odd;
  out[3] = even2 + odd2;
  out[4] = even2 - odd2;
  out[5] = y3;
}

/// G w: 3 weights to 6 points.
template <class T>
inline void transform_weights(const T* w, std::int64_t stride, T* out) {
  constexpr float sixth = 1.0F / 6, twelfth = 1.0F / 12, fourth = 0.25F, twenty_fourth = 1.0F / 24;
  const T w0 = w[0], w1 = w[stride], w2 = w[2 * stride];
  const T even = -sixth * (w0 + w2), odd = -sixth * w1;
  const T even2 = twenty_fourth * w0 + sixth * w2, odd2 = twelfth * w1;
  out[0] = fourth * w0;
  out[1] = even + odd;
  out[2] = even - odd;
  out[3] = even2 + odd2;
  out[4] = even2 - odd2;
  out[5] = w2;
}

/// Gᵀ m: 6 points to 3 gradients of weights.
template <class T>
inline void transform_weight_gradient(const T* m, std::int64_t stride, T* out) {
  constexpr float sixth = 1.0F / 6, twelfth = 1.0F / 12, fourth = 0.25F, twenty_fourth = 1.0F / 24;
  const T even = m[stride] + m[2 * stride], odd = m[stride] - m[2 * stride];
  const T even2 = m[3 * stride] + m[4 * stride], odd2 = m[3 * stride] - m[4 * stride];
  out[0] = fourth * m[0] - sixth * even + twenty_fourth * even2;
  out[1] = twelfth * odd2 - sixth * odd;
  out[2] = m[5 * stride] + sixth * (even2 - even);
}

/// Transforms both axes: From x From values to To rows of To, each handed to put(row, values). `of(in,
/// stride, out)` is one of the transforms above.
template <int From, int To, class T, class Transform, class Put>
inline void transform_both(const T* in, const Transform& of, const Put& put) {
  T half[To * From];
  for (int column = 0; column < From; ++column) {
    T out[To];
    of(in + column, From, out);
    for (int row = 0; row < To; ++row) half[row * From + column] = out[row];
  }
  for (int row = 0; row < To; ++row) {
    T out[To];
    of(half + row * From, 1, out);
    put(row, out);
  }
}

/// A chunk of transformed tiles: (point, block of lanes, tile, lane).
struct TileChunk {
  std::int64_t capacity = 0;  ///< Tiles at most
  std::int64_t lanes = 0;
  std::int64_t blocks = 0;
  float* values = nullptr;
  std::int64_t first = 0;  ///< The number of its first tile among those of the images
  std::int64_t count = 0;
  std::int64_t block_stride() const { return capacity * lanes; }
  std::int64_t point_stride() const { return blocks * block_stride() + gap; }
  std::int64_t floats() const { return points * point_stride(); }
  float* at(std::int64_t point, std::int64_t block, std::int64_t t) const {
    return values + point * point_stride() + block * block_stride() + t * lanes;
  }
};

/// Transformed weights: (panel of 2 vectors of output channels, point, input channel, output channel).
struct WeightPanels {
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t vector = 0;
  float* values = nullptr;
  std::int64_t width() const { return 2 * vector; }
  std::int64_t panels() const { return (out_channels + width() - 1) / width(); }
  std::int64_t point_stride() const { return in_channels * width() + gap; }
  std::int64_t panel_stride() const { return points * point_stride(); }
  std::int64_t floats() const { return panels() * panel_stride(); }
  float* panel(std::int64_t number, std::int64_t point) const {
    return values + number * panel_stride() + point * point_stride();
  }
  /// A pair of channels at point 0.
  float* at(std::int64_t in, std::int64_t out) const {
    return panel(out / width(), 0) + in * width() + out % width();
  }
  /// Vectors of a panel: 2, or 1 in the last one.
  std::int64_t vectors(std::int64_t number) const {
    return std::min<std::int64_t>(2, (out_channels - number * width()) / vector);
  }
};

/// R tiles by W vectors of output channels: m[w][r] = Σ_i v[i][r] · u[i][w] over the input channels of all
/// blocks. `m` holds the addresses of the vectors of the first tile; weights `next` floats further on are
/// fetched into the first cache for the panel after this one.
template <int L, int V, int R, int W>
inline void multiply_tiles(const float* v, const TileChunk& in, const float* u, std::int64_t next,
                           const Vectors<float>& m) {
  Row<V> sums[R][W] = {};
  for (std::int64_t block = 0; block < in.blocks; ++block) {
    const float* const values = v + block * in.block_stride();
    for (int lane = 0; lane < L; ++lane) {
      Row<V> weights[W];
      for (int w = 0; w < W; ++w) weights[w] = load<V>(u + w * V);
      __builtin_prefetch(u + next);
      u += 2 * V;
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const float value = values[r * L + lane];
#pragma GCC unroll 2
        for (int w = 0; w < W; ++w) sums[r][w] += value * weights[w];
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int w = 0; w < W; ++w) store<V>(sums[r][w], m[static_cast<std::size_t>(w)] + r * L);
  }
}

/// multiply_tiles() for the `count` < R + 1 tiles that are left.
template <int L, int V, int R, int W>
inline void multiply_last_tiles(std::int64_t count, const float* v, const TileChunk& in, const float* u,
                                std::int64_t next, const Vectors<float>& m) {
  if constexpr (R > 0) {
    if (count == R) return multiply_tiles<L, V, R, W>(v, in, u, next, m);
    multiply_last_tiles<L, V, R - 1, W>(count, v, in, u, next, m);
  }
}

/// One panel of one point for all tiles of a chunk.
template <int L, int V, int W>
inline void multiply_panel(const float* v, const TileChunk& in, const float* u, std::int64_t next,
                           const Vectors<float>& m) {
  constexpr int rows = tile_rows<V>;
  std::int64_t t = 0;
  for (; t + rows <= in.count; t += rows)
    multiply_tiles<L, V, rows, W>(v + t * L, in, u, next, {m[0] + t * L, m[1] + t * L});
  multiply_last_tiles<L, V, rows - 1, W>(in.count - t, v + t * L, in, u, next, {m[0] + t * L, m[1] + t * L});
}

/// The products for gradients of weights: u[r][w] = Σ_t v[t][r] · m[w][t], R input channels by W vectors of
/// output channels, added to what is there where `add`.
template <int L, int V, int W>
inline void multiply_channels(std::int64_t count, const float* v, const Vectors<const float>& m, float* u,
                              bool add) {
  constexpr int rows = channel_rows<V>;
  Row<V> sums[rows][W] = {};
#pragma GCC unroll 4
  for (std::int64_t t = 0; t < count; ++t) {
    Row<V> gradients[W];
    for (int w = 0; w < W; ++w) gradients[w] = load<V>(m[static_cast<std::size_t>(w)] + t * L);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const float value = v[t * L + r];
#pragma GCC unroll 2
      for (int w = 0; w < W; ++w) sums[r][w] += value * gradients[w];
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int w = 0; w < W; ++w) {
      float* const to = u + r * 2 * V + w * V;
      store<V>(add ? load<V>(to) + sums[r][w] : sums[r][w], to);
    }
  }
}

}  // namespace flotilla::winograd
