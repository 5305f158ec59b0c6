// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/gpu/convolution_algorithms.hpp"

namespace flotilla {

/// A convolution as cuDNN computes it, and the form of its input.
struct ComputedConv2d {
  Conv2dSpec spec;
  ImageForm form;
};

/// Conv2d by cuDNN on NHWC images. The weight lies as (O,K,K,I/groups) in the arena, in float32. In half
/// precision its halves are read, and its gradient comes as halves and is cast; a first layer's channels are
/// padded with zeros to a multiple of 8, as the matrix units need them, or in float16 to 4: its batch is
/// staged so, and forward() pads a copy of the weight. In bfloat16, where cuDNN is slow on few channels, a
/// first layer with at most 4 channels, a kernel of at least 5 and stride 2 is folded: its batch is staged as
/// blocks of 2 × 2 pixels of 4 channels each, and the copy of the weight is a kernel of half the extent,
/// rounded up, on 16 channels, stride 1.
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
  bool changes_weight() const { return computed_.spec.input[1] != spec_.input[1]; }
  void upload_places();
  DeviceSpan<const std::int32_t> places(std::int64_t first, std::int64_t count) const;
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
  ComputedConv2d computed_;
  ConvolutionAlgorithms algorithms_;
  ConvolutionDescriptors descriptors_;
  Storage weight_;    // where cuDNN's differs from the arena's: the copy
  Storage gradient_;  // in half precision: of cuDNN's weight
  Storage places_;    // ValuePasses::gather's, from the arena's weight to cuDNN's, then back
  Storage input_;     // of an input that was plain
  GraphReleaseGuard last_call_;
};

}  // namespace flotilla
