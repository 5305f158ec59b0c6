// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/image_passes.hpp"

#include <algorithm>
#include <array>

#include "kernels/cpu/lanes.hpp"

namespace flotilla {

template <>
void average_pixels(int threads, const ImageLayout& layout, const float* x, float* y) {
  const float factor = 1.0F / static_cast<float>(layout.pixels);
  with_lanes(layout, [&]<int L>(LaneCount<L>) {
    for_each_unit(threads, layout, [&](std::int64_t image, std::int64_t block, std::int64_t offset) {
      std::array<double, L> sums{};
      const float* const values = x + offset;
      for_each_piece<L>(layout, [&](std::int64_t begin, std::int64_t end) {
        RowSums<L> piece{};
        for_each_row_apart(layout, begin, end,
                           [&](std::int64_t i, std::size_t way) { piece[way] += load<L>(values + i); });
        const std::array<float, L> totals = values_of<L>(total<L>(piece));
        for (std::size_t l = 0; l < L; ++l) sums[l] += double{totals[l]};
      });
      for (std::size_t l = 0; l < L; ++l)
        y[image * layout.channels + block * L + static_cast<std::int64_t>(l)] =
            factor * static_cast<float>(sums[l]);
    });
  });
}

template <>
void spread_over_pixels(int threads, const ImageLayout& layout, const float* dy, float* dx) {
  const float factor = 1.0F / static_cast<float>(layout.pixels);
  with_lanes(layout, [&]<int L>(LaneCount<L>) {
    for_each_unit(threads, layout, [&](std::int64_t image, std::int64_t block, std::int64_t offset) {
      const Row<L> values = factor * load<L>(dy + image * layout.channels + block * L);
      float* const to = dx + offset;
      for_each_row<L>(layout, [&](std::int64_t i) { store<L>(values, to + i); });
    });
  });
}

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

template <class T>
void add_to(int threads, std::int64_t count, const T* x, T* y) {
  in_parts(threads_for(threads, count), count, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) y[i] = from_float<T>(to_float(y[i]) + to_float(x[i]));
  });
}

template <class T>
void add_and_relu(int threads, std::int64_t count, const T* a, const T* b, T* y) {
  in_parts(threads_for(threads, count), count, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      const float sum = to_float(a[i]) + to_float(b[i]);
      y[i] = from_float<T>(sum < 0.0F ? 0.0F : sum);  // NaN stays NaN
    }
  });
}

template <class T>
void mask_by_relu(int threads, std::int64_t count, const T* y, const T* dy, T* dx) {
  in_parts(threads_for(threads, count), count, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) dx[i] = to_float(y[i]) > 0.0F ? dy[i] : T{};
  });
}

template void add_to(int, std::int64_t, const float*, float*);
template void add_to(int, std::int64_t, const Bfloat16*, Bfloat16*);
template void add_and_relu(int, std::int64_t, const float*, const float*, float*);
template void add_and_relu(int, std::int64_t, const Bfloat16*, const Bfloat16*, Bfloat16*);
template void mask_by_relu(int, std::int64_t, const float*, const float*, float*);
template void mask_by_relu(int, std::int64_t, const Bfloat16*, const Bfloat16*, Bfloat16*);

}  // namespace flotilla
