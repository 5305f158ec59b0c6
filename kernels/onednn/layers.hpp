// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layers/layers.hpp"
#include "kernels/onednn/images.hpp"

namespace flotilla {

/// Plans on the CPU: oneDNN's products, convolutions and pooling, own passes for the rest.
class CpuLayers : public Layers {
 public:
  /// `memory` and `images` must outlive it.
  CpuLayers(int threads, bool winograd, const HostMemory& memory, CpuImages& images)
      : threads_(threads), winograd_(winograd), memory_(memory), images_(images) {}
  std::unique_ptr<Linear> linear(const LinearSpec& spec) override;
  std::unique_ptr<Conv2d> conv2d(const Conv2dSpec& spec) override;
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormSpec& spec) override;
  std::unique_ptr<Pool2d> pool2d(const Pool2dSpec& spec) override;
  std::unique_ptr<Dropout> dropout(const DropoutSpec& spec) override;
  std::unique_ptr<SoftmaxLoss> softmax_loss(const SoftmaxLossSpec& spec) override;

 private:
  int threads_;
  bool winograd_;
  const HostMemory& memory_;
  CpuImages& images_;
};

}  // namespace flotilla
