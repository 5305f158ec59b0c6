// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/cuda_scope.hpp"

namespace flotilla {

CudaScope::CudaScope(const DeviceSpec& spec)
    : spec_(spec),
      memory_(spec.ordinal),
      cudnn_(created<CudnnHandle>("cudnnCreate", cudnnCreate)),
      cublas_(created<CublasHandle>("cublasLtCreate", cublasLtCreate)),
      loops_(make_cuda_loops({stream(), spec.ordinal},
                             [memory = memory_](std::size_t floats) { return memory.allocate(floats); })) {
  check(cudnnSetStream(cudnn(), stream()), "cudnnSetStream");
}

void CudaScope::reserve(std::size_t bytes) {
  if (bytes <= workspace_bytes()) return;
  workspace_ = {};  // First: two of them may not fit.
  workspace_ = memory_.scratch((bytes + sizeof(float) - 1) / sizeof(float));
}

}  // namespace flotilla
