// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_room.hpp"

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"

namespace flotilla {

HostRoom::HostRoom(Device& device, std::size_t floats) : device_(device) {
  if (!device.shares_host_memory()) room_ = device.pinned(floats);
}

std::span<float> HostRoom::first(std::size_t count) {
  require(count <= room_.size(), "room for ", room_.size(), " values of a device, not for ", count);
  return host_span(room_.span()).first(count);
}

std::span<const float> HostRoom::read(DeviceSpan<const float> values) {
  if (device_.shares_host_memory()) return host_span(values);
  const std::span<float> copy = first(values.size());
  device_.download(values, copy);
  return copy;
}

std::span<const float> HostRoom::read(const Tensor& values) {
  if (device_.shares_host_memory()) return host_span(values);
  const std::span<float> copy = first(static_cast<std::size_t>(values.shape().size()));
  device_.download_values(values, copy);
  return copy;
}

std::span<float> HostRoom::take(DeviceSpan<float> values) {
  const std::span<float> host = room_for(values);
  if (!device_.shares_host_memory()) device_.download(values, host);
  return host;
}

std::span<float> HostRoom::room_for(DeviceSpan<float> values) {
  return device_.shares_host_memory() ? host_span(values) : first(values.size());
}

void HostRoom::give_back(DeviceSpan<float> values) {
  if (!device_.shares_host_memory()) device_.upload(first(values.size()), values);
}

}  // namespace flotilla
