// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layers/activation.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// y = f(x), value by value.   x and y have the same shape and layout, which may be any.
struct ElementwiseSpec {
  Shape input;
  Activation function = Activation::relu;
};

/// An activation by itself, where no other operation takes it along.
class Elementwise {
 public:
  virtual ~Elementwise() = default;
  virtual void forward(const Tensor& x, Tensor& y) = 0;
  /// dx = dy · f'(x), y what forward wrote. dx may be dy.
  virtual void backward(const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) = 0;
};

}  // namespace flotilla
