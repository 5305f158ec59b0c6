// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/scope.hpp"

#include "kernels/graphs/listed_loops.hpp"

namespace flotilla {

CudaScope::CudaScope(const DeviceSpec& spec)
    : spec_(spec),
      memory_(spec.ordinal),
      cudnn_(created<CudnnHandle>("cudnnCreate", cudnnCreate)),
      cublas_(created<CublasHandle>("cublasLtCreate", cublasLtCreate)),
      uploads_(memory_),
      graphs_(memory_, uploads_),
      plain_loops_(make_cuda_loops({stream(), spec.ordinal}, [memory = memory_](std::size_t floats) {
        return memory.allocate(floats);
      })) {
  check(cudnnSetStream(cudnn(), stream()), "cudnnSetStream");
  if (!spec.graphs) return;
  list_ = std::make_unique<WorkList>(graphs_);
  listed_loops_ = make_listed_loops(*plain_loops_, *list_);
  memory_.keep_back(list_.get());
}

CudaScope::~CudaScope() {
  memory_.keep_back(nullptr);  // Work that is still listed has no caller waiting for it.
}

void CudaScope::reserve(std::size_t bytes) {
  if (bytes <= workspace_bytes()) return;
  workspace_ = {};  // First: two of them may not fit.
  workspace_ = memory_.scratch((bytes + sizeof(float) - 1) / sizeof(float));
}

}  // namespace flotilla
