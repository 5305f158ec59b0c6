// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_queue.hpp"

namespace flotilla {

namespace {

class HostCopyLane : public CopyLane {
 public:
  explicit HostCopyLane(const DeviceMemory& memory) : memory_(memory) {}

  Mark mark() override { return 0; }
  void download(Mark, DeviceSpan<const float> from, std::span<float> host) override {
    memory_.download(from, host);
  }
  void upload(std::span<const float> host, DeviceSpan<float> to) override { memory_.upload(host, to); }

 private:
  const DeviceMemory& memory_;
};

}  // namespace

std::unique_ptr<CopyLane> HostQueue::copy_lane() {
  return std::make_unique<HostCopyLane>(memory_);
}

}  // namespace flotilla
