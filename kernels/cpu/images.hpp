// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "kernels/cpu/image_layout.hpp"
#include "kernels/cpu/primitive_scope.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/image_operations.hpp"

namespace flotilla {

/// Image tensors in the layouts of ImageLayouts, and their sums.
class CpuImages : public ImageOperations {
 public:
  struct Parts {
    std::shared_ptr<PrimitiveScope> scope;
    ImageLayouts layouts;
  };

  CpuImages(int threads, Precision precision, const HostMemory& memory)
      : threads_(threads), precision_(precision), memory_(memory) {}
  /// State shared by the plans of layers on images. Made on first use: a network without images asks oneDNN
  /// for nothing.
  const Parts& parts();

  Tensor tensor(const Shape& shape) override;
  Tensor view(const Shape& shape, DeviceSpan<float> memory) override;
  void upload(std::span<const float> host, Tensor& to) override;
  void download(const Tensor& from, std::span<float> host) override;
  void copy(const Tensor& from, Tensor& to) override;
  void add(const Tensor& x, Tensor& y) override;
  void add_relu(const Tensor& a, const Tensor& b, Tensor& y) override;
  void add_relu_backward(const Tensor& y, const Tensor& dy, Tensor& dx) override;

 private:
  std::shared_ptr<const ImageLayout> layout(const Shape& shape);  // null: plain
  std::size_t floats_of(const Shape& shape) const;                // of storage

  int threads_;
  Precision precision_;
  const HostMemory& memory_;
  std::optional<Parts> parts_;
};

}  // namespace flotilla
