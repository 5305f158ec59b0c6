// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/layer.hpp"

namespace flotilla {

/// A linear layer with its activation: tensors "<name>.weight" (O,I) and "<name>.bias" (O), zero at first.
class LinearLayer : public Layer {
 public:
  /// @param first it is the network's first layer, and needs no gradient of its input
  /// @param order where x is an image as it lies in the device's memory: the place of each of its values in
  /// plain order (FlattenLayer::order); empty: x is plain. Files have the weight in plain order in both cases
  LinearLayer(const Building& network, std::string name, const LinearSpec& spec,
              const Initializer& initializer, bool first, std::vector<std::int64_t> order = {});

  std::string_view name() const override { return name_; }
  const Shape& output_shape() const override { return shape_; }
  void bind(const Arenas& arenas) override;
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;
  std::int64_t first_offset() const override { return weight_slice_.offset; }

 private:
  std::string name_;
  ActivationMemory& memory_;
  std::unique_ptr<Linear> plan_;
  Shape shape_;
  double flop_;
  Slice weight_slice_;
  Slice bias_slice_;
  Tensor y_;
  ActivationMemory::Gradient dx_;
  ActivationMemory::Gradient dy_;  ///< To time backward alone
  bool first_;
  Weights weights_;
  Gradients gradients_;
};

}  // namespace flotilla
