// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/layers/activation.hpp"
#include "kernels/layers/weights.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// y[n,o] = f(Σ_i w[o,i] x[n,i] + b[o]).   x (N,I), w (O,I), b (O), y (N,O).
struct LinearSpec {
  std::int64_t batch = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;
  Activation activation = Activation::identity;
  bool accumulate = false;  ///< backward adds to the gradients instead of overwriting them (micro-steps).
};

/// A linear layer with its activation. A plan holds primitives and workspace for one shape; not for two
/// threads at once.
class Linear {
 public:
  virtual ~Linear() = default;
  /// Values that the weight takes in the arena, the device's padding included (padding is kept zero). The
  /// bias is plain.
  virtual std::int64_t weight_size() const = 0;
  /// Floating point operations of the product forward, and of each of the two backward: 2 · N·O·I.
  virtual std::int64_t flops() const = 0;
  virtual void forward(const Tensor& x, Weights w, Tensor& y) = 0;
  /// dy is the gradient of y, and is overwritten with that of the sum before the activation (scratch
  /// afterwards). `y` is the result of forward. Writes (or adds, see accumulate) the gradients, and dx unless
  /// it is null.
  virtual void backward(const Tensor& x, const Tensor& y, Weights w, Tensor& dy, Gradients dw,
                        Tensor* dx) = 0;
  /// Weight from the plain (O,I) order to the arena's and back. Host memory on both sides, out(I)·in(O)
  /// values plain.
  virtual void weight_from_plain(std::span<const float> plain, std::span<float> stored) const = 0;
  virtual void weight_to_plain(std::span<const float> stored, std::span<float> plain) const = 0;
};

}  // namespace flotilla
