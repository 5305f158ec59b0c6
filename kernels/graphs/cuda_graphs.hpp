// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cudnn/memory.hpp"
#include "kernels/cudnn/uploads.hpp"
#include "kernels/graphs/work_list.hpp"

namespace flotilla {

/// CUDA graphs, captured from a device's stream and launched on it.
class CudaGraphs : public WorkRecorder {
 public:
  /// Both must outlive it.
  CudaGraphs(const CudaMemory& memory, CudaUploads& uploads);

  void begin() override;
  std::unique_ptr<WorkGraph> end() override;
  void abandon() noexcept override;
  const std::uint64_t* numbers() const override;
  std::size_t room() const override;
  void upload(std::span<const std::uint64_t> numbers) override;

 private:
  const CudaMemory& memory_;
  CudaUploads& uploads_;
  Storage numbers_;
};

}  // namespace flotilla
