// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>

#include "kernels/device_memory.hpp"
#include "kernels/float_values.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// Memory of a device that shares the host's (DeviceInfo::shares_host_memory), as the host sees it.
template <class T>
std::span<T> host_span(DeviceSpan<T> memory) {
  return {memory.address(), memory.size()};
}
/// The values of a tensor of a device that shares the host's memory, which computes in float32.
inline std::span<const float> host_span(const Tensor& tensor) {
  return host_span(float_values(tensor));
}
/// Host memory, a span or an array of any kind, as a device sees it that shares the host's memory.
template <class Memory>
auto device_span(Memory&& memory) {
  return DeviceSpan(std::data(memory), std::size(memory));
}

/// The host's memory, zeroed, in huge pages where they fit in. Its storages may outlive it.
class HostMemory : public DeviceMemory {
 public:
  Storage allocate(std::size_t count) const override;  ///< @throws std::bad_alloc
  std::int64_t allocated_bytes() const override { return *bytes_; }
  void upload(std::span<const float> host, DeviceSpan<float> to) const override;
  void download(DeviceSpan<const float> from, std::span<float> host) const override;

 private:
  // Shared with the storages, which may be released after the device.
  std::shared_ptr<std::atomic<std::int64_t>> bytes_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

}  // namespace flotilla
