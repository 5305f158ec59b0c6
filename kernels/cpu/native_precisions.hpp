// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kernels/precision.hpp"

namespace flotilla {

/// The instruction sets that oneDNN generates code for on this processor, in float32 and in bfloat16.
struct NativePrecisions {
  std::string float32;   ///< "AVX-512", "AVX2", "less than AVX2"
  std::string bfloat16;  ///< "AMX", "AVX512_BF16"; empty: it would emulate them
};

/// Asks the library once in a process. The environment variable ONEDNN_MAX_CPU_ISA limits what it answers.
const NativePrecisions& native_precisions();

/// Whether device.kind = "cpu" computes in it here.
bool is_native(Precision precision);

/// Whether the processor computes faster in bfloat16 than in float32: by AMX, or by AVX512_BF16 of AMD, which
/// multiplies twice as many pairs in an instruction as float32's. On a Sapphire Rapids whose AMX is hidden
/// products take 1.7 to 2 times as long by AVX512_BF16 as in float32 (oneDNN 2.6.3).
bool is_faster_in_bfloat16();

/// @throws UserError in one sentence that names what this processor has, unless is_native(precision)
void require_native(Precision precision);

}  // namespace flotilla
