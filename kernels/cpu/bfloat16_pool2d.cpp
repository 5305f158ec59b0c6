// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/bfloat16_pool2d.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "kernels/bfloat16_values.hpp"
#include "kernels/cpu/lanes.hpp"
#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"

namespace flotilla {

namespace {

const Pool2dSpec& checked(const Pool2dSpec& spec) {
  check_spec(spec);
  require(spec.kernel < 256, "pooling in bfloat16 takes kernels below 256, got ", spec.kernel);
  return spec;
}

/// The part of a window along one axis that lies in the image, from its first place.
struct Part {
  std::int64_t first, begin, end;
};
Part part_of(const Pool2dSpec& s, std::int64_t window, std::int64_t extent) {
  const std::int64_t first = window * s.stride - s.padding;
  return {first, std::max<std::int64_t>(0, -first), std::min(s.kernel, extent - first)};
}

/// The windows along one axis, begin … end − 1, that hold this place of the image.
BlockRange windows_of(const Pool2dSpec& s, std::int64_t place, std::int64_t windows) {
  const std::int64_t from_first = place + s.padding;
  const std::int64_t begin = std::max<std::int64_t>(0, (from_first - s.kernel + s.stride) / s.stride);
  return {begin, std::min(windows, from_first / s.stride + 1)};
}

/// One divided by what a window's sum is divided by.
float share_of(const Pool2dSpec& s, const Part& down, const Part& right) {
  if (s.kind == Pooling::average_including_padding) return 1.0F / static_cast<float>(s.kernel * s.kernel);
  return 1.0F / static_cast<float>((down.end - down.begin) * (right.end - right.begin));
}

/// Values of a window: the largest so far and its place, or the sum.
template <class Lanes>
struct Window {
  std::array<float, room_for<Lanes>> values;
  std::array<std::int32_t, room_for<Lanes>> places;

  void begin(bool largest, Lanes lanes) {
    std::fill_n(values.begin(), lanes, largest ? -std::numeric_limits<float>::infinity() : 0.0F);
    std::fill_n(places.begin(), lanes, -1);
  }
  void take_larger(const Bfloat16* row, std::int32_t place, Lanes lanes) {
    float* const best = values.data();
    std::int32_t* const at = places.data();
#pragma omp simd
    for (std::int64_t c = 0; c < lanes; ++c) {
      const float value = to_float(row[c]);
      // The first value is always taken; NaN is larger than all others.
      const bool larger = at[c] < 0 || (!(value <= best[c]) && best[c] == best[c]);
      best[c] = larger ? value : best[c];
      at[c] = larger ? place : at[c];
    }
  }
  void add(const Bfloat16* row, Lanes lanes) {
    float* const sums = values.data();
#pragma omp simd
    for (std::int64_t c = 0; c < lanes; ++c) sums[c] += to_float(row[c]);
  }
  void store_places(Lanes lanes, std::uint16_t* to) const {
    std::copy_n(places.begin(), lanes, to);
  }
  void store(float factor, Lanes lanes, Bfloat16* to) const {
    const float* const from = values.data();
#pragma omp simd
    for (std::int64_t c = 0; c < lanes; ++c) to[c] = from_float<Bfloat16>(factor * from[c]);
  }
};

/// The maxima of a block, in registers: through memory each position of a window would wait for the one
/// before.
template <>
struct Window<BlockLanes> {
  using Halves [[gnu::vector_size(16 * sizeof(std::uint16_t))]] = std::uint16_t;
  using Words [[gnu::vector_size(16 * sizeof(std::uint32_t))]] = std::uint32_t;
  using Places [[gnu::vector_size(16 * sizeof(std::int32_t))]] = std::int32_t;
  Row<16> values;
  Places places;

  void begin(bool largest, BlockLanes) {
    values = Row<16>{} + (largest ? -std::numeric_limits<float>::infinity() : 0.0F);
    places = Places{} - 1;
  }
  static Row<16> read(const Bfloat16* row) {
    Halves halves;
    std::memcpy(&halves, row, sizeof(halves));
    return std::bit_cast<Row<16>>(__builtin_convertvector(halves, Words) << 16U);
  }
  void take_larger(const Bfloat16* row, std::int32_t place, BlockLanes) {
    const Row<16> value = read(row);
    const Places larger = (places < 0) | (~(value <= values) & (values == values));
    values = larger ? value : values;
    places = larger ? Places{} + place : places;
  }
  void add(const Bfloat16* row, BlockLanes) { values += read(row); }
  void store_places(BlockLanes, std::uint16_t* to) const {
    const auto halves = __builtin_convertvector(places, Halves);
    std::memcpy(to, &halves, sizeof(halves));
  }
  void store(float factor, BlockLanes, Bfloat16* to) const {
    const std::array<float, 16> from = values_of<16>(factor * values);
#pragma omp simd
    for (std::size_t c = 0; c < from.size(); ++c) to[c] = from_float<Bfloat16>(from[c]);
  }
};

}  // namespace

CpuBfloat16Pool2d::CpuBfloat16Pool2d(std::shared_ptr<PrimitiveScope> scope, const ImageLayouts& layouts,
                                     const Pool2dSpec& spec)
    : scope_(std::move(scope)),
      spec_(checked(spec)),
      source_(layouts.of(spec.input)),
      destination_(layouts.of(flotilla::output_shape(spec))) {
  require(spec.kind != Pooling::global_average, "the global average is another layer");
  const auto values = static_cast<std::size_t>(output_shape().size());
  if (spec_.kind == Pooling::max) chosen_ = scope_->memory().allocate((values + 1) / 2);
}

std::uint16_t* CpuBfloat16Pool2d::chosen() {
  return reinterpret_cast<std::uint16_t*>(chosen_.span().address());
}

std::int64_t CpuBfloat16Pool2d::place(std::int64_t image, std::int64_t block, std::int64_t pixel) const {
  const ImageLayout& to = destination_;
  // A single pixel lies as (N,C), whatever the blocks of x.
  const std::int64_t first = to.pixels == 1 ? block * source_.lanes : block * to.block_stride;
  return image * to.channels * to.pixels + first + pixel * to.pixel_stride;
}

void CpuBfloat16Pool2d::forward(const Tensor& x, Tensor& y) {
  check_image("x", x, spec_.input, source_);
  check_image("y", y, output_shape(), destination_);
  with_constant_lanes(source_.lanes, [&](auto lanes) { pool(lanes, x, y); });
}

template <class Lanes>
void CpuBfloat16Pool2d::pool(Lanes lanes, const Tensor& x, Tensor& y) {
  const Shape output = output_shape();
  const bool largest = spec_.kind == Pooling::max;
  const std::int64_t width = spec_.input[3];
  for_each_unit(scope_->threads(), source_, [&](std::int64_t image, std::int64_t block, std::int64_t offset) {
    const Bfloat16* const from = values_as<Bfloat16>(x).address() + offset;
    Window<Lanes> window;
    for (std::int64_t p = 0; p < output[2]; ++p) {
      const Part down = part_of(spec_, p, spec_.input[2]);
      for (std::int64_t q = 0; q < output[3]; ++q) {
        const Part right = part_of(spec_, q, width);
        window.begin(largest, lanes);
        for (std::int64_t i = down.begin; i < down.end; ++i) {
          for (std::int64_t j = right.begin; j < right.end; ++j) {
            const std::int64_t pixel = (down.first + i) * width + right.first + j;
            const Bfloat16* const row = from + pixel * source_.pixel_stride;
            if (largest) {
              window.take_larger(row, static_cast<std::int32_t>(i * spec_.kernel + j), lanes);
            } else {
              window.add(row, lanes);
            }
          }
        }
        const std::int64_t to = place(image, block, p * output[3] + q);
        window.store(largest ? 1.0F : share_of(spec_, down, right), lanes,
                     values_as<Bfloat16>(y).address() + to);
        if (largest) window.store_places(lanes, chosen() + to);
      }
    }
  });
}

void CpuBfloat16Pool2d::backward(const Tensor& dy, Tensor& dx) {
  check_image("dy", dy, output_shape(), destination_);
  check_image("dx", dx, spec_.input, source_);
  with_constant_lanes(source_.lanes, [&](auto lanes) { spread(lanes, dy, dx); });
}

template <class Lanes>
void CpuBfloat16Pool2d::spread(Lanes lanes, const Tensor& dy, Tensor& dx) {
  const Shape output = output_shape();
  const std::int64_t width = spec_.input[3];
  for_each_unit(scope_->threads(), source_, [&](std::int64_t image, std::int64_t block, std::int64_t offset) {
    Bfloat16* const to = values_as<Bfloat16>(dx).address() + offset;
    for (std::int64_t h = 0; h < spec_.input[2]; ++h) {
      const BlockRange down = windows_of(spec_, h, output[2]);
      for (std::int64_t w = 0; w < width; ++w) {
        const BlockRange right = windows_of(spec_, w, output[3]);
        std::array<float, room_for<Lanes>> sums;
        float* const sum = sums.data();
        std::fill_n(sum, lanes, 0.0F);
        for (std::int64_t p = down.begin; p < down.end; ++p) {
          for (std::int64_t q = right.begin; q < right.end; ++q) {
            const std::int64_t at = place(image, block, p * output[3] + q);
            const Bfloat16* const row = values_as<Bfloat16>(dy).address() + at;
            const Part rows = part_of(spec_, p, spec_.input[2]);
            const Part columns = part_of(spec_, q, width);
            if (spec_.kind == Pooling::max) {
              const std::uint16_t* const chosen_here = chosen() + at;
              const auto here =
                  static_cast<std::uint16_t>((h - rows.first) * spec_.kernel + w - columns.first);
#pragma omp simd
              for (std::int64_t c = 0; c < lanes; ++c)
                sum[c] += chosen_here[c] == here ? to_float(row[c]) : 0.0F;
            } else {
              const float share = share_of(spec_, rows, columns);
#pragma omp simd
              for (std::int64_t c = 0; c < lanes; ++c) sum[c] += share * to_float(row[c]);
            }
          }
        }
        Bfloat16* const pixel = to + (h * width + w) * source_.pixel_stride;
#pragma omp simd
        for (std::int64_t c = 0; c < lanes; ++c) pixel[c] = from_float<Bfloat16>(sum[c]);
      }
    }
  });
}

}  // namespace flotilla
