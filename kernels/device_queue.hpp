// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "kernels/tensor.hpp"

namespace flotilla {

/// Copies between a device and the host in parallel with computation, for one other thread (a communication
/// lane). A copy returns when it is complete.
class CopyLane {
 public:
  using Mark = std::size_t;

  virtual ~CopyLane() = default;
  /// Called by the computing thread: marks all work queued so far. At most 64 marks may wait for their
  /// download.
  virtual Mark mark() = 0;
  /// Called by the other thread: `host` ← `from` as it is once the marked work is complete. Marks must be
  /// given in their order.
  virtual void download(Mark after, DeviceSpan<const float> from, std::span<float> host) = 0;
  /// Called by the other thread. Work that the computing thread queues after this has returned is ordered
  /// after the copy.
  virtual void upload(std::span<const float> host, DeviceSpan<float> to) = 0;
};

/// The stream that a device's work is queued on, for libraries that use streams next to it (NCCL). `handle`
/// is a cudaStream_t; ordinal −1: the device has no queue. `submit` as DeviceQueue::submit; may be empty.
struct NativeStream {
  void* handle = nullptr;
  int ordinal = -1;
  std::function<void()> submit = {};
};

/// The work of a device that its host has queued.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  /// To be called at the end of a step: a device that collects work (CUDA graphs) submits it now.
  virtual void submit() = 0;
  virtual void synchronize() = 0;  ///< Returns when all work queued so far is complete.
  virtual std::unique_ptr<CopyLane> copy_lane() = 0;
  virtual NativeStream native_stream() const = 0;
};

}  // namespace flotilla
