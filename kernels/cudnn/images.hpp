// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device_loops/loop_tensors.hpp"
#include "kernels/image_operations.hpp"

namespace flotilla {

/// NHWC tensors and their sums, by DeviceLoops.
class LoopsImages : public ImageOperations {
 public:
  /// `queue` must outlive it.
  LoopsImages(const LoopsContext& context, DeviceQueue& queue);

  Tensor tensor(const Shape& shape) override;
  Tensor view(const Shape& shape, DeviceSpan<float> memory) override;
  void upload(std::span<const float> host, Tensor& to) override;
  void download(const Tensor& from, std::span<float> host) override;
  void copy(const Tensor& from, Tensor& to) override;
  void add(const Tensor& x, Tensor& y) override;
  void add_relu(const Tensor& a, const Tensor& b, Tensor& y) override;
  void add_relu_backward(const Tensor& y, const Tensor& dy, Tensor& dx) override;

 private:
  LoopsContext context_;
  DeviceQueue& queue_;
  std::shared_ptr<const Layout> layout_;  // shared by the tensors
};

}  // namespace flotilla
