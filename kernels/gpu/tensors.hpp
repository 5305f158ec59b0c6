// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/gpu/loops/loop_tensors.hpp"
#include "kernels/gpu/scope.hpp"
#include "kernels/tensors.hpp"

namespace flotilla {

/// Plain tensors of a GPU. Batches of images become NHWC.
class CudaTensors : public Tensors {
 public:
  /// `images` makes the tensors of images. It and `memory` are of the scope's device, and must outlive this.
  CudaTensors(const DeviceMemory& memory, ImageOperations& images, std::shared_ptr<CudaScope> scope);
  Tensor zeros(const Shape& shape) override;
  std::size_t floats_of(const Shape& shape) const override;
  void download(const Tensor& from, std::span<float> host) override;
  void round(DeviceSpan<const float> from, HalfSpan to) override;
  bool all_finite(const Tensor& x) override;
  void stage(const HostBatch& batch, Tensor& to) override;
  void finish_staging() override { scope_->uploads().finish(); }

 private:
  void stage_values(std::span<float> host, Tensor& to);
  void stage_bytes(const ByteImages& host, Tensor& to);
  DeviceSpan<const float> floats(const Tensor& x);
  void make_room(Tensor& to);

  const DeviceMemory& memory_;
  ImageOperations& images_;
  std::shared_ptr<CudaScope> scope_;
  Storage floats_;  // of the last half tensor that was asked for as floats
  Storage pixels_;  // of the last images that were to lie in rows, (N,H,W,C)
};

}  // namespace flotilla
