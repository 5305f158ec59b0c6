// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/check.hpp"

#include <array>
#include <string>

#include "kernels/error.hpp"

namespace flotilla {

void check(cudaError_t status, const char* call, std::source_location at) {
  if (status != cudaSuccess)
    throw LibraryError(call, cat(cudaGetErrorName(status), ", ", cudaGetErrorString(status)), at);
}

void check(cudnnStatus_t status, const char* call, std::source_location at) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> details{};  // Empty where cuDNN has nothing to add.
  cudnnGetLastErrorString(details.data(), details.size());
  throw LibraryError(call, cat(cudnnGetErrorString(status), details[0] == '\0' ? "" : ": ", details.data()),
                     at);
}

void check(cublasStatus_t status, const char* call, std::source_location at) {
  if (status != CUBLAS_STATUS_SUCCESS) throw LibraryError(call, cublasLtGetStatusString(status), at);
}

}  // namespace flotilla
