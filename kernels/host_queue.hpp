// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device_memory.hpp"
#include "kernels/device_queue.hpp"

namespace flotilla {

/// The queue of a device whose work is complete when a call returns: it is always empty.
class HostQueue : public DeviceQueue {
 public:
  explicit HostQueue(const DeviceMemory& memory) : memory_(memory) {}  ///< `memory` must outlive its lanes.
  void submit() override {}
  void synchronize() override {}
  std::unique_ptr<CopyLane> copy_lane() override;
  NativeStream native_stream() const override { return {}; }

 private:
  const DeviceMemory& memory_;
};

}  // namespace flotilla
