// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layers/layers.hpp"
#include "kernels/reference/rounding.hpp"
#include "kernels/reference/tagged_memory.hpp"

namespace flotilla {

/// Plans that compute by plain loops in double.
class ReferenceLayers : public Layers {
 public:
  /// `memory` must outlive it.
  ReferenceLayers(const reference::TaggedMemory& memory, reference::Rounding rounding,
                  reference::Rounding weight_gradients)
      : memory_(memory), rounding_(rounding), weight_gradients_(weight_gradients) {}
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
  const reference::TaggedMemory& memory_;
  reference::Rounding rounding_;
  reference::Rounding weight_gradients_;  // of convolutions
};

}  // namespace flotilla
