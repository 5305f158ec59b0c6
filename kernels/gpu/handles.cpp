// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/handles.hpp"

#include <array>
#include <string>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

Event event_with(unsigned flags) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return Event(event);
}

}  // namespace

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

Stream new_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return Stream(stream);
}

Event new_event() {
  return event_with(cudaEventDisableTiming);
}

Event new_awaited_event() {
  return event_with(cudaEventDisableTiming | cudaEventBlockingSync);
}

}  // namespace flotilla
