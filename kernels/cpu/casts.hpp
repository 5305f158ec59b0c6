// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/bfloat16_values.hpp"
#include "kernels/host_batch.hpp"

namespace flotilla {

/// round_to_bfloat16() of processor.hpp on threads.
void round_to_bfloat16(int threads, std::int64_t count, const float* from, Bfloat16* to);
/// to[i] = from[i], i = 0 … count − 1.
void widen(int threads, std::int64_t count, const Bfloat16* from, float* to);
/// The images scaled, rounded to the nearest bfloat16, and from (N,H,W,C) to (N,C,H,W).
void scale_bytes(int threads, const ByteImages& images, Bfloat16* to);
/// Whether none of count values is NaN or infinite.
bool all_finite(std::int64_t count, const Bfloat16* values);

}  // namespace flotilla
