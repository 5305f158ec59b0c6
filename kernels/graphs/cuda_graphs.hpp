// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/cudnn/memory.hpp"
#include "kernels/cudnn/uploads.hpp"
#include "kernels/cudnn/work.hpp"

namespace flotilla {

/// Work of a GPU that repeats itself is launched as CUDA graphs, captured from its stream. All arguments must
/// outlive the result.
std::shared_ptr<WorkQueue> make_cuda_graphs(const CudaMemory& memory, CudaUploads& uploads);

}  // namespace flotilla
