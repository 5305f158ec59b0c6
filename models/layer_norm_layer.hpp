// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "models/layer.hpp"

namespace flotilla {

/// Layer normalisation of rows (N,C): tensors "<name>.weight" (C), 1 at first, and "<name>.bias" (C), 0.
class LayerNormLayer : public Layer {
 public:
  LayerNormLayer(const Building& network, std::string name, const LayerNormSpec& spec);

  std::string_view name() const override { return name_; }
  const Shape& output_shape() const override { return shape_; }
  void bind(const Arenas& arenas) override;
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;
  std::int64_t first_offset() const override { return scale_slice_.offset; }

 private:
  std::string name_;
  std::unique_ptr<LayerNorm> plan_;
  Shape shape_;
  Slice scale_slice_, shift_slice_;
  ScaleShift weights_;
  ScaleShiftGradients gradients_;
  Tensor y_;
  ActivationMemory::Gradient dy_;  ///< To time backward alone
};

}  // namespace flotilla
