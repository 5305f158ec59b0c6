// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/layer.hpp"

namespace flotilla {

/// Images (N,C,H,W) as rows (N, C·H·W), whose values stay where they lie: the linear layer behind it takes
/// them in that order, order().
class FlattenLayer : public Layer {
 public:
  FlattenLayer(const Building& network, std::string name, const Shape& input);

  std::string_view name() const override { return name_; }
  const Shape& output_shape() const override { return shape_; }
  void bind(const Arenas&) override {}
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor&, TimedOperations&) override {}
  std::int64_t first_offset() const override { return offset_; }

  /// The place in plain order (C,H,W) of each value of a row.
  const std::vector<std::int64_t>& order() const { return order_; }

 private:
  std::string name_;
  ActivationMemory& memory_;
  std::int64_t offset_;
  Shape shape_;
  std::vector<std::int64_t> order_;
  Tensor y_;
  ActivationMemory::Gradient dx_;
};

}  // namespace flotilla
