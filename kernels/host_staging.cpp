// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_staging.hpp"

#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "kernels/host_memory.hpp"

namespace flotilla {

HostStaging::HostStaging(Device& device, std::size_t floats) : device_(device) {
  if (!device.info().shares_host_memory) staging_ = device.memory().pinned(floats);
}

std::span<float> HostStaging::first(std::size_t count) {
  require(count <= staging_.size(), "room for ", staging_.size(), " values of a device, not for ", count);
  return host_span(staging_.span()).first(count);
}

std::span<const float> HostStaging::read(DeviceSpan<const float> values) {
  if (device_.info().shares_host_memory) return host_span(values);
  const std::span<float> copy = first(values.size());
  device_.memory().download(values, copy);
  return copy;
}

std::span<const float> HostStaging::read(const Tensor& values) {
  if (device_.info().shares_host_memory && !is_half(device_.info().precision)) return host_span(values);
  const auto count = static_cast<std::size_t>(values.shape().size());
  if (staging_.size() < count) staging_ = device_.memory().pinned(count);
  const std::span<float> copy = first(count);
  device_.tensors().download(values, copy);
  return copy;
}

std::span<float> HostStaging::map(DeviceSpan<float> values) {
  const std::span<float> host = map_for_writing(values);
  if (!device_.info().shares_host_memory) device_.memory().download(values, host);
  return host;
}

std::span<float> HostStaging::map_for_writing(DeviceSpan<float> values) {
  return device_.info().shares_host_memory ? host_span(values) : first(values.size());
}

void HostStaging::unmap(DeviceSpan<float> values) {
  if (!device_.info().shares_host_memory) device_.memory().upload(first(values.size()), values);
}

JointRead::JointRead(Device& device, std::size_t floats)
    : device_(device), together_(device.memory().allocate(floats)), staging_(device, floats) {
  require(!is_half(device.info().precision), "values of ", device.info().description, " are no floats");
}

void JointRead::append(DeviceSpan<const float> values) {
  require(used_ + values.size() <= together_.size(), "a joint read of ", used_ + values.size(),
          " values, not of ", together_.size());
  device_.flat().copy(values, together_.span().subspan(used_, values.size()));
  used_ += values.size();
}

std::span<const float> JointRead::read(DeviceSpan<const float> array,
                                       std::initializer_list<const Tensor*> tensors) {
  used_ = 0;
  append(array);
  for (const Tensor* tensor : tensors)
    append(float_values(*tensor).subspan(0, static_cast<std::size_t>(tensor->shape().size())));
  return staging_.read(DeviceSpan<const float>(together_.span().subspan(0, used_)));
}

}  // namespace flotilla
