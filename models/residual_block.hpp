// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "models/conv_norm.hpp"

namespace flotilla {

struct ResidualBlockSpec {
  std::string name;  ///< "layer1.0"
  Shape input;
  std::int64_t width = 0;  ///< Channels of the inner convolutions
  std::int64_t out = 0;    ///< Channels of the output
  std::int64_t stride = 1;
  bool bottleneck = false;  ///< 1×1, 3×3 (with the stride: "v1.5"), 1×1; else 3×3 (with the stride), 3×3
  bool recompute = false;   ///< Keeps its output only and computes the inner tensors again in backward
  bool accumulate = false;
  WorkerExchange* exchange = nullptr;
  std::size_t index =
      0;  ///< Index in the network: outputs of an inference network alternate between two slots
};

/// y = relu(main(x) + shortcut(x)) (He et al. 2016), the shortcut a 1×1 convolution with batch norm where the
/// shape changes. Tensors are named as torchvision's: "layer1.0.conv1.weight",
/// "layer1.0.downsample.0.weight".
class ResidualBlock : public Layer {
 public:
  ResidualBlock(const Building& network, const ResidualBlockSpec& spec);

  std::string_view name() const override { return name_; }
  const Shape& output_shape() const override { return main_.back()->output_shape(); }
  void bind(const Arenas& arenas) override;
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;
  std::int64_t first_offset() const override { return main_.front()->first_offset(); }

 private:
  std::string name_;
  ActivationMemory& memory_;
  bool recompute_;
  std::vector<std::unique_ptr<ConvNorm>> main_;
  std::unique_ptr<ConvNorm> shortcut_;      ///< Null: x itself
  std::vector<const Tensor*> activations_;  ///< Inputs of main_'s units in the last forward pass
};

}  // namespace flotilla
