// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layers/layers.hpp"
#include "kernels/onednn/images.hpp"
#include "kernels/precision.hpp"

namespace flotilla {

/// Plans on the CPU: oneDNN's products, convolutions and pooling, own passes for the rest.
class CpuLayers : public Layers {
 public:
  /// The choices made by a DeviceSpec.
  struct Choices {
    int threads = 1;
    Precision precision = Precision::float32;
    bool winograd = false;
  };

  /// `memory` and `images` must outlive it.
  CpuLayers(const Choices& choices, const HostMemory& memory, CpuImages& images)
      : choices_(choices), memory_(memory), images_(images) {}
  std::unique_ptr<Linear> linear(const LinearSpec& spec) override;
  std::unique_ptr<Conv2d> conv2d(const Conv2dSpec& spec) override;
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormSpec& spec) override;
  std::unique_ptr<LayerNorm> layer_norm(const LayerNormSpec& spec) override;
  std::unique_ptr<Pool2d> pool2d(const Pool2dSpec& spec) override;
  std::unique_ptr<Elementwise> elementwise(const ElementwiseSpec& spec) override;
  std::unique_ptr<Dropout> dropout(const DropoutSpec& spec) override;
  std::unique_ptr<Loss> softmax_loss(const SoftmaxLossSpec& spec) override;
  std::unique_ptr<Loss> output_loss(const OutputLossSpec& spec) override;

 private:
  /// For the products of a linear layer, one of which takes so many operations: of some microseconds they are
  /// not faster with two threads.
  std::shared_ptr<PrimitiveScope> scope_for(std::int64_t flops);

  Choices choices_;
  const HostMemory& memory_;
  CpuImages& images_;
  std::shared_ptr<PrimitiveScope> one_thread_;  // null until it is needed
};

}  // namespace flotilla
