// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/layer.hpp"

namespace flotilla {

/// y = body(x) + shortcut(x), and ReLU of the sum where `relu` says so. Body and shortcut are layers one
/// after another; an empty shortcut is x itself. Layers are made in the order body, shortcut. The body holds
/// no other residual: its gradients would need a fourth slot of ActivationMemory.
class ResidualLayer : public Layer {
 public:
  struct Parts {
    std::vector<std::unique_ptr<Layer>> body;
    std::vector<std::unique_ptr<Layer>> shortcut;
    bool relu = false;
  };
  ResidualLayer(const Building& network, std::string name, Parts parts);

  std::string_view name() const override { return name_; }
  const Shape& output_shape() const override { return shape_; }
  void bind(const Arenas& arenas) override;
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;
  std::int64_t first_offset() const override { return body_.layers.front()->first_offset(); }

 private:
  struct Chain {
    std::vector<std::unique_ptr<Layer>> layers;
    std::vector<const Tensor*> inputs{};  ///< Of each layer, in the last forward pass

    const Tensor& forward(const Tensor& x, const PassInfo& info);
    Tensor& backward(Tensor& dy);
    void time_alone(TimedOperations& operations);
  };

  std::string name_;
  Device& device_;
  ActivationMemory& memory_;
  Chain body_;
  Chain shortcut_;
  bool relu_;
  Shape shape_;
  Tensor y_;
  ActivationMemory::Gradient dsum_;
};

}  // namespace flotilla
