// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <source_location>

namespace flotilla {

/// @throws LibraryError with the library's error text unless the call succeeded. Errors of queued work are
/// reported by a later call.
void check(cudaError_t status, const char* call, std::source_location at = std::source_location::current());
void check(cudnnStatus_t status, const char* call, std::source_location at = std::source_location::current());
void check(cublasStatus_t status, const char* call,
           std::source_location at = std::source_location::current());

}  // namespace flotilla
