// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/bfloat16_pool2d.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/bfloat16_values.hpp"
#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/onednn/lanes.hpp"

namespace flotilla {

namespace {

const Pool2dSpec& checked(const Pool2dSpec& spec) {
  check_spec(spec);
  require(spec.kernel < 256, "pooling in bfloat16 takes kernels below 256, got ", spec.kernel);
  return spec;
}

using Lanes = std::array<float, most_lanes>;

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
struct Window {
  Lanes values;
  std::array<std::int32_t, most_lanes> places;

  void begin(bool largest, std::int64_t lanes) {
    std::fill_n(values.begin(), lanes, largest ? -std::numeric_limits<float>::infinity() : 0.0F);
    std::fill_n(places.begin(), lanes, -1);
  }
  void take_larger(const Bfloat16* row, std::int32_t place, std::int64_t lanes) {
    float* const best = values.data();
    std::int32_t* const at = places.data();
#pragma omp simd
    for (std::int64_t c = 0; c < lanes; ++c) {
      const float value = to_float(row[c]);
      // The first one is taken whatever it is; NaN is larger than all others.
      const bool larger = at[c] < 0 || (!(value <= best[c]) && best[c] == best[c]);
      best[c] = larger ? value : best[c];
      at[c] = larger ? place : at[c];
    }
  }
  void add(const Bfloat16* row, std::int64_t lanes) {
    float* const sums = values.data();
#pragma omp simd
    for (std::int64_t c = 0; c < lanes; ++c) sums[c] += to_float(row[c]);
  }
  void store(float factor, std::int64_t lanes, Bfloat16* to) const {
    const float* const from = values.data();
#pragma omp simd
    for (std::int64_t c = 0; c < lanes; ++c) to[c] = from_float<Bfloat16>(factor * from[c]);
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
  const Shape output = output_shape();
  const bool largest = spec_.kind == Pooling::max;
  const std::int64_t lanes = source_.lanes;
  const std::int64_t width = spec_.input[3];
  for_each_unit(scope_->threads(), source_, [&](std::int64_t image, std::int64_t block, std::int64_t offset) {
    const Bfloat16* const from = values_as<Bfloat16>(x).address() + offset;
    Window window;
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
        if (largest) std::copy_n(window.places.begin(), lanes, chosen() + to);
      }
    }
  });
}

void CpuBfloat16Pool2d::backward(const Tensor& dy, Tensor& dx) {
  check_image("dy", dy, output_shape(), destination_);
  check_image("dx", dx, spec_.input, source_);
  const Shape output = output_shape();
  const std::int64_t lanes = source_.lanes;
  const std::int64_t width = spec_.input[3];
  for_each_unit(scope_->threads(), source_, [&](std::int64_t image, std::int64_t block, std::int64_t offset) {
    Bfloat16* const to = values_as<Bfloat16>(dx).address() + offset;
    for (std::int64_t h = 0; h < spec_.input[2]; ++h) {
      const BlockRange down = windows_of(spec_, h, output[2]);
      for (std::int64_t w = 0; w < width; ++w) {
        const BlockRange right = windows_of(spec_, w, output[3]);
        Lanes sums;
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
