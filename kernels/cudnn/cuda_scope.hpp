// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/cudnn/cuda_memory.hpp"
#include "kernels/device_loops/device_loops.hpp"
#include "kernels/precision.hpp"

namespace flotilla {

/// What all plans of one GPU share: queue, memory, libraries, and one workspace, which the one plan that runs
/// at a time may use. Plans must not outlive it.
class CudaScope {
 public:
  explicit CudaScope(const DeviceSpec& spec);

  const CudaMemory& memory() const { return memory_; }
  cudaStream_t stream() const { return memory_.stream(); }
  cudnnHandle_t cudnn() const { return cudnn_.get(); }
  cublasLtHandle_t cublas() const { return cublas_.get(); }
  DeviceLoops& loops() const { return *loops_; }

  Precision precision() const { return spec_.precision; }
  Tf32 tf32() const { return spec_.tf32; }
  bool reproducible() const { return spec_.reproducible; }
  std::size_t workspace_limit() const { return spec_.workspace_bytes; }

  /// Makes the workspace at least so large. For the making of plans.
  void reserve(std::size_t bytes);
  void* workspace() { return workspace_.span().address(); }
  std::size_t workspace_bytes() const { return workspace_.size() * sizeof(float); }

 private:
  DeviceSpec spec_;
  CudaMemory memory_;
  CudnnHandle cudnn_;
  CublasHandle cublas_;
  Storage workspace_;
  std::unique_ptr<DeviceLoops> loops_;
};

}  // namespace flotilla
