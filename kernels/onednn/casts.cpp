// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/casts.hpp"

#include "kernels/threads.hpp"

namespace flotilla {

void round_to_bfloat16(int threads, std::int64_t count, const float* from, Bfloat16* to) {
  in_parts(threads_for(threads, count), count, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) to[i] = from_float<Bfloat16>(from[i]);
  });
}

void widen(int threads, std::int64_t count, const Bfloat16* from, float* to) {
  in_parts(threads_for(threads, count), count, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) to[i] = to_float(from[i]);
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
