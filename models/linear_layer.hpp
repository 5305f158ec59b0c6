// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "models/layer.hpp"

namespace flotilla {

/// A linear layer with its activation: tensors "<name>.weight" (O,I) and "<name>.bias" (O).
class LinearLayer : public Layer {
 public:
  /// @param first it is the network's first layer: no gradient of its input is computed
  LinearLayer(Device& device, ArenaLayout& layout, std::string name, const LinearSpec& spec, bool first);

  std::string_view name() const override { return name_; }
  const Shape& output_shape() const override { return y_.shape(); }
  void bind(const Arenas& arenas) override;
  const Tensor& forward(const Tensor& x, Pass pass) override;
  Tensor* backward(const Tensor& x, Tensor& dy) override;
  std::int64_t first_offset() const override { return weight_slice_.offset; }
  std::int64_t activation_values() const override { return y_.shape().size() + dx_.shape().size(); }

  const Linear& plan() const { return *plan_; }

 private:
  std::string name_;
  std::unique_ptr<Linear> plan_;
  Slice weight_slice_;
  Slice bias_slice_;
  Tensor y_;
  Tensor dx_;
  bool first_;
  Weights weights_;
  Gradients gradients_;
};

}  // namespace flotilla
