// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/cudnn/convolution_algorithms.hpp"

namespace flotilla {

/// Conv2d by cuDNN on NHWC images. The weight lies as (O,K,K,I/groups) in the arena, in float32. In half
/// precision its halves are read, and its gradient comes as halves and is cast; a first layer's channels are
/// padded with zeros to 8, as the matrix units need them: its batch is staged so, and forward() pads a copy
/// of the weight.
class CudaConv2d : public Conv2d {
 public:
  CudaConv2d(std::shared_ptr<CudaScope> scope, AlgorithmChoice& choice, const Conv2dSpec& spec);
  Shape output_shape() const override { return flotilla::output_shape(spec_); }
  std::int64_t weight_size() const override;
  std::int64_t flops() const override { return flotilla::flops(spec_); }
  std::shared_ptr<const Layout> batch_layout() const override;
  void forward(const Tensor& x, Weights w, Tensor& y) override;
  void backward_data(const Tensor& dy, Weights w, Tensor& dx) override;
  void backward_weights(const Tensor& x, const Tensor& dy, Gradients dw) override;
  void weight_from_plain(std::span<const float> plain, std::span<float> stored) const override;
  void weight_to_plain(std::span<const float> stored, std::span<float> plain) const override;

 private:
  Shape input() const;                  // as cuDNN gets it
  RowsSpec channels_of_weight() const;  // from the arena to cuDNN
  Values half_weight(Storage& storage) const;
  void take_gradient(DeviceSpan<float> weight);
  const void* operand(const Weights& w) const;
  const void* operand(const Tensor& x);
  // Queued work, on addresses:
  void convolve(const void* x, const void* weight, void* y);
  void convolve_back(const void* dy, const void* weight, void* dx);
  void convolve_for_weight(const void* x, const void* dy, bool adds, void* dw);
  template <class Body>
  void for_each_weight(const Body& body) const;

  std::shared_ptr<CudaScope> scope_;
  Conv2dSpec spec_;
  std::int64_t channels_;  // of x, padding included
  ConvolutionAlgorithms algorithms_;
  ConvolutionDescriptors descriptors_;
  Storage weight_;    // of a first layer in half precision: the padded copy
  Storage gradient_;  // in half precision: of the weight
  Storage input_;     // of an input that was plain
  GraphReleaseGuard last_call_;
};

}  // namespace flotilla
