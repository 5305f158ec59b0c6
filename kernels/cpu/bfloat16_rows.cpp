// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/bfloat16_rows.hpp"

#include <algorithm>
#include <array>

#include "kernels/cpu/image_layout.hpp"
#include "kernels/threads.hpp"

namespace flotilla {

namespace {

/// The outputs along one axis, begin … end − 1, whose kernel sees this place of the image.
BlockRange windows_of(const Conv2dSpec& s, std::int64_t place, std::int64_t outputs) {
  const std::int64_t from_first = place + s.padding;
  const std::int64_t begin = std::max<std::int64_t>(0, (from_first - s.kernel + s.stride) / s.stride);
  return {begin, std::min(outputs, from_first / s.stride + 1)};
}

}  // namespace

void gather_rows(int threads, const Conv2dSpec& s, const Bfloat16* x, Bfloat16* rows) {
  const Shape output = output_shape(s);
  const std::int64_t channels = s.input[1];
  const std::int64_t height = s.input[2];
  const std::int64_t width = s.input[3];
  const std::int64_t line = s.kernel * channels;  // of a kernel
  const std::int64_t count = output[0] * output[2];
  in_parts(threads_for(threads, count * output[3] * s.kernel * line), count, [&](auto first, auto last) {
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t image = row / output[2];
      const std::int64_t top = row % output[2] * s.stride - s.padding;
      for (std::int64_t q = 0; q < output[3]; ++q) {
        const std::int64_t left = q * s.stride - s.padding;
        const std::int64_t before = std::max<std::int64_t>(0, -left);
        const std::int64_t inside = std::max(before, std::min(s.kernel, width - left));
        Bfloat16* to = rows + (row * output[3] + q) * s.kernel * line;
        for (std::int64_t h = top; h < top + s.kernel; ++h, to += line) {
          if (h < 0 || h >= height) {
            std::fill_n(to, line, Bfloat16{});
            continue;
          }
          const Bfloat16* const from = x + ((image * height + h) * width + left) * channels;
          std::fill(to, to + before * channels, Bfloat16{});
          std::copy(from + before * channels, from + inside * channels, to + before * channels);
          std::fill(to + inside * channels, to + line, Bfloat16{});
        }
      }
    }
  });
}

void sum_rows(int threads, const Conv2dSpec& s, const float* rows, Bfloat16* dx) {
  const Shape output = output_shape(s);
  const std::int64_t channels = s.input[1];
  const std::int64_t height = s.input[2];
  const std::int64_t width = s.input[3];
  const std::int64_t count = s.input[0] * height;
  in_parts(threads_for(threads, count * width * channels), count, [&](auto first, auto last) {
    for (std::int64_t line = first; line < last; ++line) {
      const std::int64_t image = line / height;
      const std::int64_t h = line % height;
      const BlockRange down = windows_of(s, h, output[2]);
      for (std::int64_t w = 0; w < width; ++w) {
        const BlockRange right = windows_of(s, w, output[3]);
        Bfloat16* const to = dx + (line * width + w) * channels;
        for (std::int64_t begin = 0; begin < channels; begin += max_lanes) {
          const std::int64_t lanes = std::min(max_lanes, channels - begin);
          std::array<float, max_lanes> sums;
          std::fill_n(sums.begin(), lanes, 0.0F);
          for (std::int64_t p = down.begin; p < down.end; ++p) {
            for (std::int64_t q = right.begin; q < right.end; ++q) {
              const std::int64_t row = (image * output[2] + p) * output[3] + q;
              const std::int64_t kh = h + s.padding - p * s.stride;
              const std::int64_t kw = w + s.padding - q * s.stride;
              const float* const from = rows + ((row * s.kernel + kh) * s.kernel + kw) * channels + begin;
#pragma omp simd
              for (std::int64_t c = 0; c < lanes; ++c) sums[static_cast<std::size_t>(c)] += from[c];
            }
          }
#pragma omp simd
          for (std::int64_t c = 0; c < lanes; ++c)
            to[begin + c] = from_float<Bfloat16>(sums[static_cast<std::size_t>(c)]);
        }
      }
    }
  });
}

}  // namespace flotilla
