// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/host_memory.hpp"
#include "kernels/image_operations.hpp"
#include "kernels/onednn/image_layout.hpp"

namespace flotilla {

/// Operations on images on the CPU: oneDNN's convolutions and pooling, own passes for the rest.
class CpuImages : public ImageOperations {
 public:
  CpuImages(int threads, bool winograd, const HostMemory& memory);
  ~CpuImages() override;
  Tensor tensor(const Shape& shape) override;
  Tensor view(const Shape& shape, DeviceSpan<float> memory) override;
  void upload(std::span<const float> host, Tensor& to) override;
  void download(const Tensor& from, std::span<float> host) override;
  std::unique_ptr<Conv2d> conv2d(const Conv2dSpec& spec) override;
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormSpec& spec) override;
  std::unique_ptr<Pool2d> pool2d(const Pool2dSpec& spec) override;
  std::unique_ptr<Dropout> dropout(const DropoutSpec& spec) override;
  void copy(const Tensor& from, Tensor& to) override;
  void add(const Tensor& x, Tensor& y) override;
  void add_relu(const Tensor& a, const Tensor& b, Tensor& y) override;
  void add_relu_backward(const Tensor& y, const Tensor& dy, Tensor& dx) override;

 private:
  struct Parts;
  std::shared_ptr<const ImageLayout> layout(const Shape& shape);  // null: plain
  Parts& parts();  // made on first use: a network without images asks oneDNN for nothing

  int threads_;
  bool winograd_;
  HostMemory memory_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace flotilla
