// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "kernels/tensor.hpp"

namespace flotilla {

/// Image tensors and sums of tensors. tensor() uses the device's preferred layout for a shape; a tensor of
/// Tensors can be used where that layout is plain (it is for up to 4 channels). In every layout a tensor has
/// shape.size() values, without padding.
class ImageOperations {
 public:
  virtual ~ImageOperations() = default;
  virtual Tensor tensor(const Shape& shape) = 0;  ///< (N,C,H,W), zeroed.
  /// A tensor (N,C,H,W) over memory that the caller keeps alive: shape.size() values, aligned to 64 bytes.
  /// Their order is that of the shape's layout: a view of another shape does not see the same tensor.
  virtual Tensor view(const Shape& shape, DeviceSpan<float> memory) = 0;
  virtual void upload(std::span<const float> host, Tensor& to) = 0;      ///< From plain N, C, H, W.
  virtual void download(const Tensor& from, std::span<float> host) = 0;  ///< To plain N, C, H, W.

  /// to ← from, both of one shape and layout; any shape.
  virtual void copy(const Tensor& from, Tensor& to) = 0;
  /// y ← y + x, both of one shape and layout, any shape; rounded once. Other sums are fused into other
  /// passes.
  virtual void add(const Tensor& x, Tensor& y) = 0;
  /// y = relu(a + b), all of one shape and layout; y may be a or b.
  virtual void add_relu(const Tensor& a, const Tensor& b, Tensor& y) = 0;
  /// dx = dy where y > 0, 0 otherwise: the gradient of both a and b. dx may be dy.
  virtual void add_relu_backward(const Tensor& y, const Tensor& dy, Tensor& dx) = 0;
};

}  // namespace flotilla
