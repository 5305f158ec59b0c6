// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/kernels/values.hpp"

namespace flotilla::test {

/// An image tensor of the device, of `values` in plain order.
inline Tensor image_of(Device& device, const Shape& shape, const std::vector<float>& values) {
  Tensor made = device.images().tensor(shape);
  device.images().upload(values, made);
  return made;
}
/// Filled with 99, which no operation may leave.
inline Tensor stale_image(Device& device, const Shape& shape) {
  return image_of(device, shape, std::vector<float>(static_cast<std::size_t>(shape.size()), 99.0F));
}

inline std::vector<float> read_image(Device& device, const Tensor& from) {
  std::vector<float> values(static_cast<std::size_t>(from.shape().size()));
  device.images().download(from, values);
  return values;
}

}  // namespace flotilla::test
