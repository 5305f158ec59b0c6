// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/lanes.hpp"
#include "kernels/cpu/norm_passes.hpp"

// Values of bfloat16 as rows: a pixel's `lanes` channels of a block, in loops that the compiler vectorises in
// the processor's width. Rows of a fixed width (lanes.hpp) would be rounded value by value where the
// registers are narrower.

namespace flotilla {

namespace {

template <class Lanes>
using Sums = std::array<float, room_for<Lanes>>;
template <class Lanes>
using DoubleSums = std::array<double, room_for<Lanes>>;

/// Pixels whose values are added up in float32.
constexpr std::int64_t piece = 128;

/// Pixels that are added to a sum at a time, so that an addition need not wait for the one before.
constexpr std::int64_t at_a_time = 4;

/// Values in a line of the cache.
constexpr std::int64_t line = 32;

struct One {
  static constexpr std::int64_t value = 1;
};
struct Several {
  static constexpr std::int64_t value = at_a_time;
};

/// Calls body(pixel, how many from there on) for pixels begin … end − 1, the number as a type.
template <class Body>
inline void for_each_few(std::int64_t begin, std::int64_t end, const Body& body) {
  std::int64_t p = begin;
  for (; p + at_a_time <= end; p += at_a_time) body(p, Several{});
  for (; p < end; ++p) body(p, One{});
}

template <class Body>
inline void for_each_piece(std::int64_t pixels, const Body& body) {
  for (std::int64_t begin = 0; begin < pixels; begin += piece) body(begin, std::min(begin + piece, pixels));
}

/// The channels' values of one block.
struct ChannelBlock {
  const float* mean;
  const float* factor;
  const float* shift;

  ChannelBlock(const NormChannels& of, std::int64_t first)
      : mean(of.mean + first), factor(of.factor + first), shift(of.shift + first) {}
  float value(float x, std::int64_t c) const { return (x - mean[c]) * factor[c] + shift[c]; }
};

/// Whether passes write past the cache, as with_stores() of lanes.hpp does; rows must be whole lines of it.
/// Normalising 16 images of 256 x 56 x 56 that are in no cache took 0.80 of the time, backward 0.86 (Sapphire
/// Rapids, two threads). Half lines, which blocks are, took 1.25 and 1.19 of the time (Zen 4, two threads).
bool stores_past_cache(const ImageLayout& layout) {
  constexpr std::int64_t cache = 1 << 20;  // bytes
  const std::int64_t bytes =
      layout.images * layout.channels * layout.pixels * static_cast<std::int64_t>(sizeof(Bfloat16));
  return bytes > cache && layout.lanes % line == 0;
}

/// Calls body(lanes of with_constant_lanes(), whether it writes past the cache as a type).
template <class Body>
void with_row(const ImageLayout& layout, const Body& body) {
  with_constant_lanes(layout.lanes, [&]<class Lanes>(Lanes lanes) {
    if constexpr (!std::is_same_v<Lanes, BlockLanes>) {
      if (stores_past_cache(layout)) return body(lanes, std::true_type{});
    }
    body(lanes, std::false_type{});
  });
}

/// Writes value(c), rounded, to `to` for each lane.
template <bool Past, class Lanes, class Value>
inline void write_row(Lanes lanes, Bfloat16* to, const Value& value) {
  if constexpr (Past) {
    alignas(64) std::array<Bfloat16, room_for<Lanes>> row;
#pragma omp simd
    for (std::int64_t c = 0; c < lanes; ++c)
      row[static_cast<std::size_t>(c)] = from_float<Bfloat16>(value(c));
    for (std::int64_t c = 0; c < lanes; c += line) {
      Row<16> bits;  // of a line, whatever they mean
      std::memcpy(&bits, row.data() + c, sizeof(bits));
      store_past_cache(bits, reinterpret_cast<float*>(to + c));
    }
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < lanes; ++c) to[c] = from_float<Bfloat16>(value(c));
  }
}

template <class Lanes>
void unit_statistics(Lanes lanes, const ImageLayout& layout, const Bfloat16* x, double* means,
                     double* squares) {
  const std::int64_t stride = layout.pixel_stride;
  DoubleSums<Lanes> mean;
  DoubleSums<Lanes> square;
  std::fill_n(mean.begin(), lanes, 0.0);
  std::fill_n(square.begin(), lanes, 0.0);
  for_each_piece(layout.pixels, [&](std::int64_t begin, std::int64_t end) {
    Sums<Lanes> sums;
    std::fill_n(sums.begin(), lanes, 0.0F);
    for_each_few(begin, end, [&]<class N>(std::int64_t p, N) {
#pragma omp simd
      for (std::int64_t c = 0; c < lanes; ++c) {
        float sum = 0.0F;
        for (std::int64_t k = 0; k < N::value; ++k) sum += to_float(x[(p + k) * stride + c]);
        sums[static_cast<std::size_t>(c)] += sum;
      }
    });
    const float share = 1.0F / static_cast<float>(end - begin);
    for (std::int64_t c = 0; c < lanes; ++c) sums[static_cast<std::size_t>(c)] *= share;  // the piece's means
    Sums<Lanes> square_sums;
    std::fill_n(square_sums.begin(), lanes, 0.0F);
    for_each_few(begin, end, [&]<class N>(std::int64_t p, N) {
#pragma omp simd
      for (std::int64_t c = 0; c < lanes; ++c) {
        float sum = 0.0F;
        for (std::int64_t k = 0; k < N::value; ++k) {
          const float difference = to_float(x[(p + k) * stride + c]) - sums[static_cast<std::size_t>(c)];
          sum += difference * difference;
        }
        square_sums[static_cast<std::size_t>(c)] += sum;
      }
    });
    // Chan, Golub & LeVeque 1979: joins the piece to the pixels before it.
    const auto before = static_cast<double>(begin);
    const double weight = static_cast<double>(end - begin) / static_cast<double>(end);
    for (std::size_t c = 0; c < static_cast<std::size_t>(lanes); ++c) {
      const double difference = double{sums[c]} - mean[c];
      mean[c] += difference * weight;
      square[c] += double{square_sums[c]} + difference * difference * before * weight;
    }
  });
  std::copy_n(mean.begin(), lanes, means);
  std::copy_n(square.begin(), lanes, squares);
}

template <AfterNorm A, bool More, class Lanes>
void unit_gradient_sums(Lanes lanes, const ImageLayout& layout, std::int64_t offset,
                        const NormGradient<Bfloat16>& in, const ChannelBlock& of, Bfloat16* dresidual,
                        double* products, double* sums) {
  DoubleSums<Lanes> product;
  DoubleSums<Lanes> sum;
  std::fill_n(product.begin(), lanes, 0.0);
  std::fill_n(sum.begin(), lanes, 0.0);
  for_each_piece(layout.pixels, [&](std::int64_t begin, std::int64_t end) {
    Sums<Lanes> product_sums;
    Sums<Lanes> dz_sums;
    std::fill_n(product_sums.begin(), lanes, 0.0F);
    std::fill_n(dz_sums.begin(), lanes, 0.0F);
    for_each_few(begin, end, [&]<class N>(std::int64_t p, N) {
#pragma omp simd
      for (std::int64_t c = 0; c < lanes; ++c) {
        float products_of_few = 0.0F;
        float dz_of_few = 0.0F;
        for (std::int64_t k = 0; k < N::value; ++k) {
          const std::int64_t i = offset + (p + k) * layout.pixel_stride + c;
          const float x = to_float(in.x[i]);
          float dz = to_float(in.dy[i]);
          if constexpr (More) dz += to_float(in.more_dy[i]);
          if constexpr (A == AfterNorm::relu) dz = of.value(x, c) > 0.0F ? dz : 0.0F;
          if constexpr (A == AfterNorm::add_relu) {
            dz = to_float(in.y[i]) > 0.0F ? dz : 0.0F;
            dresidual[i] = from_float<Bfloat16>(dz);
          }
          products_of_few += dz * (x - of.mean[c]);
          dz_of_few += dz;
        }
        product_sums[static_cast<std::size_t>(c)] += products_of_few;
        dz_sums[static_cast<std::size_t>(c)] += dz_of_few;
      }
    });
    for (std::size_t c = 0; c < static_cast<std::size_t>(lanes); ++c) {
      product[c] += double{product_sums[c]};
      sum[c] += double{dz_sums[c]};
    }
  });
  std::copy_n(product.begin(), lanes, products);
  std::copy_n(sum.begin(), lanes, sums);
}

}  // namespace

template <>
void image_statistics(int threads, const ImageLayout& layout, BlockRange blocks, const Bfloat16* x,
                      ImageSums sums) {
  with_constant_lanes(layout.lanes, [&](auto lanes) {
    for_each_unit(threads, layout, blocks, [&](std::int64_t image, std::int64_t block, std::int64_t offset) {
      const std::int64_t at = image * layout.channels + block * lanes;
      unit_statistics(lanes, layout, x + offset, sums.first + at, sums.second + at);
    });
  });
}

template <>
void normalise_pixels(int threads, const ImageLayout& layout, BlockRange blocks, AfterNorm after,
                      const Bfloat16* x, const Bfloat16* residual, const NormChannels& of, Bfloat16* y) {
  with_after(after, [&]<AfterNorm A>(Then<A>) {
    with_row(layout, [&]<class Past>(auto lanes, Past) {
      for_each_unit(threads, layout, blocks, [&](std::int64_t, std::int64_t block, std::int64_t offset) {
        const ChannelBlock channels(of, block * lanes);
        for (std::int64_t p = 0; p < layout.pixels; ++p) {
          const std::int64_t row = offset + p * layout.pixel_stride;
          write_row<Past::value>(lanes, y + row, [&](std::int64_t c) {
            float z = channels.value(to_float(x[row + c]), c);
            if constexpr (A == AfterNorm::add_relu) z += to_float(residual[row + c]);
            if constexpr (A != AfterNorm::nothing) z = z < 0.0F ? 0.0F : z;  // NaN stays NaN
            return z;
          });
        }
      });
    });
  });
}

template <>
void image_gradient_sums(int threads, const ImageLayout& layout, BlockRange blocks, AfterNorm after,
                         const NormGradient<Bfloat16>& in, const NormChannels& of, Bfloat16* dresidual,
                         ImageSums sums) {
  with_after(after, [&]<AfterNorm A>(Then<A>) {
    with_constant_lanes(layout.lanes, [&](auto lanes) {
      for_each_unit(threads, layout, blocks,
                    [&](std::int64_t image, std::int64_t block, std::int64_t offset) {
                      const std::int64_t first = block * lanes;
                      const std::int64_t at = image * layout.channels + first;
                      const ChannelBlock channels(of, first);
                      if (A == AfterNorm::add_relu && in.more_dy != nullptr) {
                        unit_gradient_sums<A, true>(lanes, layout, offset, in, channels, dresidual,
                                                    sums.first + at, sums.second + at);
                      } else {
                        unit_gradient_sums<A, false>(lanes, layout, offset, in, channels, dresidual,
                                                     sums.first + at, sums.second + at);
                      }
                    });
    });
  });
}

template <>
void normalise_backward(int threads, const ImageLayout& layout, BlockRange blocks, AfterNorm after,
                        const Bfloat16* x, const Bfloat16* dy, const NormChannels& of, const float* constant,
                        const float* slope, Bfloat16* dx) {
  with_after(after, [&]<AfterNorm A>(Then<A>) {
    with_row(layout, [&]<class Past>(auto lanes, Past) {
      for_each_unit(threads, layout, blocks, [&](std::int64_t, std::int64_t block, std::int64_t offset) {
        const ChannelBlock channels(of, block * lanes);
        const float* const constants = constant + block * lanes;
        const float* const slopes = slope + block * lanes;
        for (std::int64_t p = 0; p < layout.pixels; ++p) {
          const std::int64_t row = offset + p * layout.pixel_stride;
          write_row<Past::value>(lanes, dx + row, [&](std::int64_t c) {
            const float value = to_float(x[row + c]);
            float dz = to_float(dy[row + c]);
            if constexpr (A == AfterNorm::relu) dz = channels.value(value, c) > 0.0F ? dz : 0.0F;
            return channels.factor[c] * (dz - constants[c] - (value - channels.mean[c]) * slopes[c]);
          });
        }
      });
    });
  });
}

}  // namespace flotilla
