// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace flotilla {

/// The precision of activations, their gradients and the weights of products. Sums, parameters, statistics
/// and the optimizer's state are float32 in any case (docs/precision.md).
enum class Precision : std::uint8_t { float32, float16, bfloat16 };

/// The deck's: "float32", "float16", "bfloat16"
inline std::string_view name(Precision precision) {
  switch (precision) {
    case Precision::float16: return "float16";
    case Precision::bfloat16: return "bfloat16";
    case Precision::float32: break;
  }
  return "float32";
}
inline bool is_half(Precision precision) {
  return precision != Precision::float32;
}

}  // namespace flotilla
