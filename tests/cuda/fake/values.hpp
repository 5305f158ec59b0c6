// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/half_rounding.hpp"

/// Values in memory of the fake GPU, which is the host's.
namespace flotilla::fake {

inline Precision precision_of(cudnnDataType_t type) {
  if (type == CUDNN_DATA_HALF) return Precision::float16;
  return type == CUDNN_DATA_BFLOAT16 ? Precision::bfloat16 : Precision::float32;
}
inline Precision precision_of(cudaDataType type) {
  if (type == CUDA_R_16F) return Precision::float16;
  return type == CUDA_R_16BF ? Precision::bfloat16 : Precision::float32;
}

inline double value_at(const void* array, Precision precision, std::int64_t i) {
  if (!is_half(precision)) return static_cast<const float*>(array)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(array)[i];
  return precision == Precision::float16 ? half::float_of_float16(bits) : half::float_of_bfloat16(bits);
}

inline void store_at(void* array, Precision precision, std::int64_t i, double value) {
  const auto rounded = static_cast<float>(value);
  if (!is_half(precision)) {
    static_cast<float*>(array)[i] = rounded;
  } else {
    static_cast<std::uint16_t*>(array)[i] =
        precision == Precision::float16 ? half::float16_of(rounded) : half::bfloat16_of(rounded);
  }
}

/// What a kernel does to the workspace that it is given.
inline void spoil(void* workspace, std::size_t bytes) {
  constexpr std::size_t enough = 4096;
  if (bytes > 0) std::memset(workspace, 0xFF, std::min(bytes, enough));
}

}  // namespace flotilla::fake
