// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/error.hpp"
#include "kernels/layers/conv2d.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// The reduction of a pooling window; averages divide by the size of the window, or of its part inside the
/// image; global_average takes the whole image (kernel, stride and padding are then ignored).
enum class Pooling { max, average_including_padding, average_excluding_padding, global_average };

/// y[n,c,:,:] over windows of x.   x (N,C,H,W), y (N,C,H',W') as in Conv2dSpec; global_average y (N,C,1,1),
/// whose storage is that of a plain (N,C). Of equal largest values the first one gets the gradient.
struct Pool2dSpec {
  Shape input;
  Pooling kind = Pooling::max;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;  ///< At most kernel / 2.
  friend bool operator==(const Pool2dSpec&, const Pool2dSpec&) = default;
};

class Pool2d {
 public:
  virtual ~Pool2d() = default;
  virtual Shape output_shape() const = 0;
  virtual void forward(const Tensor& x, Tensor& y) = 0;
  /// The gradient for the last forward(): max uses the positions of the largest values, which forward()
  /// keeps.
  virtual void backward(const Tensor& dy, Tensor& dx) = 0;
  /// Whether there is a backward_sum().
  virtual bool adds_gradients() const { return false; }
  /// backward() of dy + more_dy, rounded to the device's precision, in one pass.
  virtual void backward_sum(const Tensor& /*dy*/, const Tensor& /*more_dy*/, Tensor& /*dx*/) {
    throw InternalError("this pooling takes one gradient");
  }
};

inline Shape output_shape(const Pool2dSpec& s) {
  if (s.kind == Pooling::global_average) return {s.input[0], s.input[1], 1, 1};
  return {s.input[0], s.input[1], windows(s.input[2], s.kernel, s.stride, s.padding),
          windows(s.input[3], s.kernel, s.stride, s.padding)};
}

}  // namespace flotilla
