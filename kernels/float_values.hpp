// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tensor.hpp"

namespace flotilla {

/// A tensor's storage as floats, for devices whose tensors hold float32 values. Not for networks, which do
/// not know what a device's tensors hold.
inline DeviceSpan<float> float_values(Tensor& tensor) {
  return {reinterpret_cast<float*>(tensor.span().address()), tensor.span().size()};
}
inline DeviceSpan<const float> float_values(const Tensor& tensor) {
  return {reinterpret_cast<const float*>(tensor.span().address()), tensor.span().size()};
}

}  // namespace flotilla
