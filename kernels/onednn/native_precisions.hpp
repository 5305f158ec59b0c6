// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kernels/precision.hpp"

namespace flotilla {

/// What oneDNN generates code for on this processor: for sums and products in float32, and in bfloat16.
struct NativePrecisions {
  std::string float32;   ///< "AVX-512", "AVX2", "less than AVX2"
  std::string bfloat16;  ///< "AMX", "AVX512_BF16"; empty: it would emulate them
};

/// Asks the library once in a process. The environment variable ONEDNN_MAX_CPU_ISA limits what it answers.
const NativePrecisions& native_precisions();

/// Whether device.kind = "cpu" computes in it here.
bool is_native(Precision precision);

/// @throws UserError in one sentence that names what this processor has, unless is_native(precision)
void require_native(Precision precision);

}  // namespace flotilla
