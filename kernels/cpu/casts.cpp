// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/casts.hpp"

#include <array>
#include <cstddef>

#include "kernels/processor/processor.hpp"
#include "kernels/threads.hpp"

namespace flotilla {

namespace {

/// to[p] = factor · from[p · channels] + offset, p = 0 … pixels − 1.
template <std::int64_t channels>
void scale_channel(std::int64_t pixels, const std::uint8_t* from, float factor, float offset, Bfloat16* to) {
#pragma omp simd
  for (std::int64_t p = 0; p < pixels; ++p)
    to[p] = from_float<Bfloat16>(static_cast<float>(from[p * channels]) * factor + offset);
}

}  // namespace

void round_to_bfloat16(int threads, std::int64_t count, const float* from, Bfloat16* to) {
  in_parts(threads_for(threads, count), count, [&](std::int64_t begin, std::int64_t end) {
    round_to_bfloat16(end - begin, from + begin, reinterpret_cast<std::uint16_t*>(to + begin));
  });
}

void widen(int threads, std::int64_t count, const Bfloat16* from, float* to) {
  in_parts(threads_for(threads, count), count, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) to[i] = to_float(from[i]);
  });
}

void scale_bytes(int threads, const ByteImages& images, Bfloat16* to) {
  const std::int64_t channels = images.shape[1];
  const std::int64_t pixels = images.shape[2] * images.shape[3];
  constexpr std::array scale = {scale_channel<1>, scale_channel<2>, scale_channel<3>, scale_channel<4>};
  const std::int64_t planes = images.shape[0] * channels;
  in_parts(threads_for(threads, planes * pixels), planes, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const std::int64_t image = plane / channels;
      const auto channel = static_cast<std::size_t>(plane % channels);
      const std::uint8_t* const from = images.pixels.data() + image * pixels * channels + channel;
      scale[static_cast<std::size_t>(channels - 1)](pixels, from, images.scaling.factor[channel],
                                                    images.scaling.offset[channel], to + plane * pixels);
    }
  });
}

bool all_finite(std::int64_t count, const Bfloat16* values) {
  constexpr unsigned exponent = 0x7F80;
  unsigned special = 0;
#pragma omp simd reduction(| : special)
  for (std::int64_t i = 0; i < count; ++i)
    special |= (static_cast<unsigned>(values[i]) & exponent) == exponent ? 1U : 0U;
  return special == 0;
}

}  // namespace flotilla
