// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/image_values.hpp"

namespace flotilla::test {

/// Multiples of 1/16 in [−1, 1]: every precision holds them, and float their products and sums of thousands
/// of those. So two devices that round the same results come to the same bits, whatever the order of their
/// sums.
inline std::vector<float> exact_values(std::int64_t count, std::uint64_t stream) {
  std::vector<float> made = values(count, stream);
  for (float& value : made) value = std::round(value * 16.0F) / 16.0F;
  return made;
}

/// A plain activation tensor, of whatever precision the device has. `values` must stay.
inline Tensor staged(Device& device, const Shape& shape, std::vector<float>& values) {
  Tensor made = device.tensors().zeros(shape);
  device.tensors().stage(values, made);
  return made;
}

inline std::vector<float> values_of(Device& device, const Tensor& from) {
  std::vector<float> values(static_cast<std::size_t>(from.shape().size()));
  device.tensors().download(from, values);
  return values;
}

inline std::unique_ptr<Device> gpu(DeviceSpec spec = {}) {
  spec.kind = "cuda";
  return make_device(spec);
}

constexpr Precision precisions[] = {Precision::float32, Precision::float16, Precision::bfloat16};

}  // namespace flotilla::test
