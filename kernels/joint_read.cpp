// SPDX-License-Identifier: Apache-2.0
#include "kernels/joint_read.hpp"

#include "kernels/error.hpp"
#include "kernels/float_values.hpp"

namespace flotilla {

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
