// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/cudnn/convolution_algorithms.hpp"
#include "kernels/device_loops/loop_tensors.hpp"
#include "kernels/layers/layers.hpp"

namespace flotilla {

/// Plans on a GPU: cuBLAS' products, cuDNN's convolutions, own loops for the rest.
class CudaLayers : public Layers {
 public:
  CudaLayers(const LoopsContext& context, std::shared_ptr<CudaScope> scope);
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
  LoopsContext context_;
  std::shared_ptr<CudaScope> scope_;
  AlgorithmChoice choice_;
};

}  // namespace flotilla
