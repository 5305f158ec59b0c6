// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace flotilla {

/// "native (avx2 fma avx512f)": the -march value and the checked features that it makes the program need.
std::string built_for();

/// Makes the calling thread, and those that it starts later, take values below 1.2e-38 as zero. Moments that
/// decay become denormal and stay so, and Adam over them takes 90 us instead of 34 (Zen 4; more elsewhere).
/// Returns whether this processor can.
bool flush_denormals();

/// to[i] = the bits of from[i] rounded to the nearest bfloat16, ties to even, i = 0 … count − 1; NaN stays
/// NaN. Where the processor has AVX512_BF16 by its instruction, for which values below 1.2e-38 are zero.
void round_to_bfloat16(std::int64_t count, const float* from, std::uint16_t* to);

/// Whether this is an AMD processor.
bool is_amd();

}  // namespace flotilla
