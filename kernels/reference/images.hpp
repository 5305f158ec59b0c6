// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/image_operations.hpp"
#include "kernels/reference/rounding.hpp"
#include "kernels/reference/tagged_memory.hpp"

namespace flotilla {

/// Image tensors, which are plain here, and their sums.
class ReferenceImages : public ImageOperations {
 public:
  ReferenceImages(const reference::TaggedMemory& memory, reference::Rounding rounding)
      : memory_(memory), rounding_(rounding) {}
  Tensor tensor(const Shape& shape) override;
  Tensor view(const Shape& shape, DeviceSpan<float> memory) override;
  void upload(std::span<const float> host, Tensor& to) override;
  void download(const Tensor& from, std::span<float> host) override;
  void copy(const Tensor& from, Tensor& to) override;
  void add(const Tensor& x, Tensor& y) override;
  void add_relu(const Tensor& a, const Tensor& b, Tensor& y) override;
  void add_relu_backward(const Tensor& y, const Tensor& dy, Tensor& dx) override;

 private:
  const reference::TaggedMemory& memory_;
  reference::Rounding rounding_;
};

}  // namespace flotilla
