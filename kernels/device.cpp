// SPDX-License-Identifier: Apache-2.0
#include "kernels/device.hpp"

#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "kernels/host_memory.hpp"

namespace flotilla {

namespace {

/// Where work is done when a call returns: nothing to wait for.
class PlainCopyLane : public CopyLane {
 public:
  explicit PlainCopyLane(Device& device) : device_(device) {}

  Mark mark() override { return 0; }
  void download(Mark, DeviceSpan<const float> from, std::span<float> host) override {
    device_.download(from, host);
  }
  void upload(std::span<const float> host, DeviceSpan<float> to) override { device_.upload(host, to); }

 private:
  Device& device_;
};

}  // namespace

void Device::download_values(const Tensor& from, std::span<float> host) {
  download(float_values(from), host);
}

bool Device::all_finite(const Tensor& x) {
  return flat().all_finite(float_values(x));
}

void Device::stage_bytes(const ByteImages& /*host*/, Tensor& /*to*/) {
  throw InternalError(cat("the device ", name(), " takes no images of bytes"));
}

ImageOperations& Device::images() {
  throw InternalError(cat("the device \"", name(), "\" has no operations on images"));
}

Storage Device::pinned(std::size_t count) {
  return HostMemory().allocate(count);
}

std::unique_ptr<CopyLane> Device::copy_lane() {
  return std::make_unique<PlainCopyLane>(*this);
}

}  // namespace flotilla
