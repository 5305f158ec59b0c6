// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <source_location>

#include "kernels/owned.hpp"

// Private to mpi/all_reduce/nccl/nccl_*: functions that need the vendor's headers.
namespace flotilla::mpi {

/// @throws LibraryError with NCCL's own text unless `code` is ncclSuccess. `communicator`: whose last error
/// is reported; null: the last of all.
void check(ncclResult_t code, const char* call, ncclComm_t communicator = nullptr,
           std::source_location at = std::source_location::current());

/// @throws LibraryError with CUDA's own text unless `code` is cudaSuccess.
void check(cudaError_t code, const char* call, std::source_location at = std::source_location::current());

/// "remote process exited or there was a network error: <what NCCL logged last>"
std::string text_of(ncclResult_t code, ncclComm_t communicator);

using CudaStream = Owned<cudaStream_t, cudaStreamDestroy>;
using CudaEvent = Owned<cudaEvent_t, cudaEventDestroy>;

}  // namespace flotilla::mpi
