// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/bfloat16_values.hpp"

namespace flotilla {

/// to[i] = from[i] rounded to the nearest bfloat16, ties to even, i = 0 … count − 1.
void round_to_bfloat16(int threads, std::int64_t count, const float* from, Bfloat16* to);
/// to[i] = from[i], i = 0 … count − 1.
void widen(int threads, std::int64_t count, const Bfloat16* from, float* to);
/// Whether none of count values is NaN or infinite.
bool all_finite(std::int64_t count, const Bfloat16* values);

}  // namespace flotilla
