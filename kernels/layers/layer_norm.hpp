// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/layers/batch_norm.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// x̂ = (x − mean) / √(variance + ε) over the values of each row, the variance biased;  y = scale · x̂ + shift,
/// value by value (Ba, Kiros & Hinton 2016).   x, y (N,C) plain, scale and shift (C).
struct LayerNormSpec {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float epsilon = 1e-5F;
  bool accumulate = false;  ///< backward adds to the gradients of scale and shift.
  friend bool operator==(const LayerNormSpec&, const LayerNormSpec&) = default;
};

/// Layer normalisation. A plan keeps mean and 1 / √(variance + ε) of each row from forward to backward.
class LayerNorm {
 public:
  virtual ~LayerNorm() = default;
  virtual void forward(const Tensor& x, ScaleShift w, Tensor& y) = 0;
  /// With g = scale · dy: dx = (g − mean g − x̂ · mean(g · x̂)) / √(variance + ε). dx may be dy. Writes (or
  /// adds, see accumulate) the gradients Σ dy · x̂ of the scale and Σ dy of the shift, over rows.
  virtual void backward(const Tensor& x, ScaleShift w, const Tensor& dy, ScaleShiftGradients gradients,
                        Tensor& dx) = 0;
};

}  // namespace flotilla
