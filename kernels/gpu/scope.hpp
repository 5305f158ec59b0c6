// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "kernels/device.hpp"
#include "kernels/gpu/loops/device_loops.hpp"
#include "kernels/gpu/memory.hpp"
#include "kernels/gpu/uploads.hpp"
#include "kernels/gpu/work.hpp"
#include "kernels/precision.hpp"

namespace flotilla {

/// State shared by all plans of one GPU: queue, memory, libraries, and one workspace, used by the one plan
/// that runs at a time. Plans must not outlive it.
class CudaScope {
 public:
  explicit CudaScope(const DeviceSpec& spec);
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;
  ~CudaScope();

  const CudaMemory& memory() const { return memory_; }
  CudaUploads& uploads() { return uploads_; }
  cudaStream_t stream() const { return memory_.stream(); }
  cudnnHandle_t cudnn() const { return cudnn_.get(); }
  cublasLtHandle_t cublas() const { return cublas_.get(); }
  DeviceLoops& loops() const { return *loops_; }
  ValuePasses& passes() const { return loops_->passes(); }
  /// Calls plan.method(arguments…), now or when the collected work is submitted. The plan has a
  /// GraphReleaseGuard.
  template <auto method, class Plan, class... Arguments>
  void hand_out(Plan& plan, const Arguments&... arguments) {
    if (graphs_) {
      graphs_->add<method>(plan, arguments...);
    } else {
      (plan.*method)(arguments...);
    }
  }
  void submit() const { memory_.stream(); }
  /// To be called before a plan is destroyed that collected work may call.
  void before_release() const noexcept {
    if (graphs_) graphs_->before_release();
  }

  Precision precision() const { return spec_.precision; }
  Tf32 tf32() const { return spec_.tf32; }
  bool reproducible() const { return spec_.reproducible; }
  std::size_t workspace_limit() const { return spec_.workspace_bytes; }

  /// Makes the workspace at least so large; while a plan is constructed.
  void reserve(std::size_t bytes);
  void* workspace() { return workspace_.span().address(); }
  std::size_t workspace_bytes() const { return workspace_.size() * sizeof(float); }

 private:
  DeviceSpec spec_;
  CudaMemory memory_;
  CudnnHandle cudnn_;
  CublasHandle cublas_;
  Storage workspace_;
  CudaUploads uploads_;
  std::shared_ptr<WorkQueue> graphs_;  // null: work is done at once
  std::unique_ptr<DeviceLoops> loops_;
};

/// The last member of a plan that lists calls of itself: they are submitted before the plan is destroyed.
class GraphReleaseGuard {
 public:
  explicit GraphReleaseGuard(std::shared_ptr<const CudaScope> scope) : scope_(std::move(scope)) {}
  GraphReleaseGuard(const GraphReleaseGuard&) = delete;
  GraphReleaseGuard& operator=(const GraphReleaseGuard&) = delete;
  ~GraphReleaseGuard() { scope_->before_release(); }

 private:
  std::shared_ptr<const CudaScope> scope_;
};

}  // namespace flotilla
