// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/scope.hpp"

#include "kernels/gpu/graphs/cuda_graphs.hpp"

namespace flotilla {

CudaScope::CudaScope(const DeviceSpec& spec)
    : spec_(spec),
      memory_(spec.ordinal),
      cudnn_(created<CudnnHandle>("cudnnCreate", cudnnCreate)),
      cublas_(created<CublasHandle>("cublasLtCreate", cublasLtCreate)),
      uploads_(memory_),
      graphs_(spec.graphs ? make_cuda_graphs(memory_, uploads_) : nullptr),
      loops_(make_cuda_loops(
          {stream(), spec.ordinal},
          [memory = memory_](std::size_t floats) { return memory.allocate(floats); }, graphs_.get())) {
  check(cudnnSetStream(cudnn(), stream()), "cudnnSetStream");
  memory_.keep_back(graphs_.get());
}

CudaScope::~CudaScope() {
  memory_.keep_back(nullptr);  // Work that is still kept back has no caller waiting for it.
}

void CudaScope::reserve(std::size_t bytes) {
  if (bytes <= workspace_bytes()) return;
  workspace_ = {};  // First: two of them may not fit.
  workspace_ = memory_.scratch((bytes + sizeof(float) - 1) / sizeof(float));
}

}  // namespace flotilla
