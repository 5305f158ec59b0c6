// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/layers/weights.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// y[n,o,:,:] = Σ_i w[o,i,:,:] ⋆ x[n,i,:,:] + b[o], i over the channels of o's group.   x (N,I,H,W), w
/// (O,I/groups,K,K), b (O), y (N,O,H',W'), H' = ⌊(H + 2·padding − K)/stride⌋ + 1.
struct Conv2dSpec {
  Shape input;
  std::int64_t out_channels = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t groups = 1;
  bool bias = false;
  bool accumulate = false;     ///< backward_weights adds to the gradients (micro-steps).
  bool input_gradient = true;  ///< Without it backward_data is not made and must not be called (first layer).
};

/// A convolution. A plan holds primitives for one shape; plans of one device share scratch memory, so that
/// only one of them runs at a time. Image tensors are those of ImageOperations::tensor.
class Conv2d {
 public:
  virtual ~Conv2d() = default;
  virtual Shape output_shape() const = 0;
  /// Values that the weight takes in the arena, the device's padding (kept zero) included; the gradient has
  /// the same layout. The bias is plain.
  virtual std::int64_t weight_size() const = 0;
  /// Floating point operations of each of the three passes: flotilla::flops of the specification.
  virtual std::int64_t flops() const = 0;
  /// The layout of a batch of Tensors::stage that a convolution without input gradient takes without a copy;
  /// null: the one that stage() makes of a tensor without layout.
  virtual std::shared_ptr<const Layout> batch_layout() const { return nullptr; }
  virtual void forward(const Tensor& x, Weights w, Tensor& y) = 0;
  virtual void backward_data(const Tensor& dy, Weights w, Tensor& dx) = 0;
  virtual void backward_weights(const Tensor& x, const Tensor& dy, Gradients dw) = 0;
  /// Weight from the plain (O,I/groups,K,K) order to the arena's and back. Host memory on both sides.
  virtual void weight_from_plain(std::span<const float> plain, std::span<float> stored) const = 0;
  virtual void weight_to_plain(std::span<const float> stored, std::span<float> plain) const = 0;
};

/// ⌊(extent + 2·padding − kernel) / stride⌋ + 1: the places of a window along one axis.
inline std::int64_t windows(std::int64_t extent, std::int64_t kernel, std::int64_t stride,
                            std::int64_t padding) {
  return (extent + 2 * padding - kernel) / stride + 1;
}
inline Shape output_shape(const Conv2dSpec& s) {
  return {s.input[0], s.out_channels, windows(s.input[2], s.kernel, s.stride, s.padding),
          windows(s.input[3], s.kernel, s.stride, s.padding)};
}
/// 2 · N·O·H'·W' · I/groups·K²: a multiplication and an addition each, with padding included.
inline std::int64_t flops(const Conv2dSpec& s) {
  return 2 * output_shape(s).size() * s.input[1] / s.groups * s.kernel * s.kernel;
}

}  // namespace flotilla
