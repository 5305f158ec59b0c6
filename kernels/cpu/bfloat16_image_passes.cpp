// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "kernels/cpu/image_passes.hpp"
#include "kernels/cpu/lanes.hpp"

namespace flotilla {

template <>
void average_pixels(int threads, const ImageLayout& layout, const Bfloat16* x, Bfloat16* y) {
  const double factor = 1.0 / static_cast<double>(layout.pixels);
  for_each_unit(threads, layout, [&](std::int64_t image, std::int64_t block, std::int64_t offset) {
    const std::int64_t lanes = layout.lanes;
    std::array<double, max_lanes> sums;
    std::fill_n(sums.begin(), lanes, 0.0);
    for (std::int64_t p = 0; p < layout.pixels; ++p) {
      const Bfloat16* const row = x + offset + p * layout.pixel_stride;
#pragma omp simd
      for (std::int64_t c = 0; c < lanes; ++c) sums[static_cast<std::size_t>(c)] += double{to_float(row[c])};
    }
    for (std::int64_t c = 0; c < lanes; ++c)
      y[image * layout.channels + block * lanes + c] =
          from_float<Bfloat16>(static_cast<float>(factor * sums[static_cast<std::size_t>(c)]));
  });
}

template <>
void spread_over_pixels(int threads, const ImageLayout& layout, const Bfloat16* dy, Bfloat16* dx) {
  const float factor = 1.0F / static_cast<float>(layout.pixels);
  for_each_unit(threads, layout, [&](std::int64_t image, std::int64_t block, std::int64_t offset) {
    const std::int64_t lanes = layout.lanes;
    const Bfloat16* const from = dy + image * layout.channels + block * lanes;
    std::array<Bfloat16, max_lanes> values;
    for (std::int64_t c = 0; c < lanes; ++c)
      values[static_cast<std::size_t>(c)] = from_float<Bfloat16>(factor * to_float(from[c]));
    for (std::int64_t p = 0; p < layout.pixels; ++p)
      std::copy_n(values.begin(), lanes, dx + offset + p * layout.pixel_stride);
  });
}

}  // namespace flotilla
