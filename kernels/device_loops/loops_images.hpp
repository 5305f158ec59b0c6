// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device_loops/plans.hpp"

namespace flotilla {

/// ImageOperations on NHWC tensors by DeviceLoops; a device adds the convolution.
class LoopsImages : public ImageOperations {
 public:
  explicit LoopsImages(const LoopsContext& context);

  Tensor tensor(const Shape& shape) override;
  Tensor view(const Shape& shape, DeviceSpan<float> memory) override;
  void upload(std::span<const float> host, Tensor& to) override;
  void download(const Tensor& from, std::span<float> host) override;
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormSpec& spec) override;
  std::unique_ptr<Pool2d> pool2d(const Pool2dSpec& spec) override;
  std::unique_ptr<Dropout> dropout(const DropoutSpec& spec) override;
  void copy(const Tensor& from, Tensor& to) override;
  void add(const Tensor& x, Tensor& y) override;
  void add_relu(const Tensor& a, const Tensor& b, Tensor& y) override;
  void add_relu_backward(const Tensor& y, const Tensor& dy, Tensor& dx) override;

 private:
  LoopsContext context_;
  std::shared_ptr<const Layout> layout_;  // shared by the tensors
};

}  // namespace flotilla
