// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/gpu/memory.hpp"
#include "kernels/gpu/uploads.hpp"
#include "kernels/gpu/work.hpp"

namespace flotilla {

/// Work of a GPU that repeats itself is launched as CUDA graphs, captured from its stream. All arguments must
/// outlive the result.
std::shared_ptr<WorkQueue> make_cuda_graphs(const CudaMemory& memory, CudaUploads& uploads);

}  // namespace flotilla
