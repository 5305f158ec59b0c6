// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "models/layer.hpp"

namespace flotilla {

/// An activation by itself, of images or rows.
class ActivationLayer : public Layer {
 public:
  ActivationLayer(const Building& network, std::string name, const ElementwiseSpec& spec);

  std::string_view name() const override { return name_; }
  const Shape& output_shape() const override { return shape_; }
  void bind(const Arenas&) override {}
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;
  std::int64_t first_offset() const override { return offset_; }

 private:
  std::string name_;
  std::int64_t offset_;
  std::unique_ptr<Elementwise> plan_;
  Shape shape_;
  Tensor y_;
  ActivationMemory::Gradient dy_;  ///< To time backward alone
};

}  // namespace flotilla
