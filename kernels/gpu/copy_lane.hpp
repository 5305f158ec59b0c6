// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "kernels/device_queue.hpp"
#include "kernels/gpu/memory.hpp"

namespace flotilla {

/// CopyLane on a stream of its own.
class CudaCopyLane : public CopyLane {
 public:
  explicit CudaCopyLane(CudaMemory memory);
  Mark mark() override;
  void download(Mark after, DeviceSpan<const float> from, std::span<float> host) override;
  void upload(std::span<const float> host, DeviceSpan<float> to) override;

 private:
  void copy(void* to, const void* from, std::size_t floats, cudaMemcpyKind kind);

  CudaMemory memory_;
  Stream lane_;
  std::array<Event, 64> marks_;
  Mark next_ = 0;
};

}  // namespace flotilla
