// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <source_location>

#include "kernels/owned.hpp"

namespace flotilla {

/// @throws LibraryError with the library's error text unless the call succeeded. Errors of queued work are
/// reported by a later call.
void check(cudaError_t status, const char* call, std::source_location at = std::source_location::current());
void check(cudnnStatus_t status, const char* call, std::source_location at = std::source_location::current());
void check(cublasStatus_t status, const char* call,
           std::source_location at = std::source_location::current());

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using MemoryPool = Owned<cudaMemPool_t, cudaMemPoolDestroy>;

using CudnnHandle = Owned<cudnnHandle_t, cudnnDestroy>;
using TensorDescriptor = Owned<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;
using FilterDescriptor = Owned<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor = Owned<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>;

using CublasHandle = Owned<cublasLtHandle_t, cublasLtDestroy>;
using MatrixLayout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using ProductDescriptor = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using ProductPreference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// The handle that `create(&handle, arguments…)` makes. @throws LibraryError naming `call`.
template <class Handle, class Create, class... Arguments>
Handle created(const char* call, const Create& create, const Arguments&... arguments) {
  typename Handle::pointer handle = nullptr;
  check(create(&handle, arguments...), call);
  return Handle(handle);
}

Stream new_stream();  ///< Not ordered with the legacy default stream.
/// For streams that wait: it keeps no time, and the host must not wait for it.
Event new_event();
/// For the host, whose thread sleeps while it waits (cudaEventBlockingSync), and for streams.
Event new_awaited_event();

}  // namespace flotilla
