// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/layer.hpp"

namespace flotilla {

/// Adds the tensor "<name>.weight" (O,I/groups,K,K) of a convolution, whose plan must outlive the network's
/// tensors.
Slice add_conv_weight(const Building& network, const std::string& name, const Conv2dSpec& spec,
                      const Initializer& initializer, const Conv2d& plan);

/// A convolution: tensors "<name>.weight" (O,I/groups,K,K) and, with a bias, "<name>.bias" (O), zero at
/// first.
class ConvLayer : public Layer {
 public:
  ConvLayer(const Building& network, std::string name, const Conv2dSpec& spec,
            const Initializer& initializer);

  std::string_view name() const override { return name_; }
  const Shape& output_shape() const override { return shape_; }
  void bind(const Arenas& arenas) override;
  std::shared_ptr<const Layout> batch_layout() const override { return plan_->batch_layout(); }
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;
  std::int64_t first_offset() const override { return weight_slice_.offset; }

 private:
  std::string name_;
  ActivationMemory& memory_;
  std::unique_ptr<Conv2d> plan_;
  Shape shape_;
  double flop_;
  bool bias_;
  bool input_gradient_;
  Slice weight_slice_;
  Slice bias_slice_;
  Weights weights_;
  Gradients gradients_;
  Tensor y_;
  ActivationMemory::Gradient dx_;
  ActivationMemory::Gradient dy_;  ///< To time backward alone
};

}  // namespace flotilla
