// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "models/layer.hpp"

namespace flotilla {

/// Pooling of images: over windows, (N,C,H,W) → (N,C,H',W'), or the average of a whole image, (N,C,H,W) →
/// (N,C).
class PoolLayer : public Layer {
 public:
  PoolLayer(const Building& network, std::string name, const Pool2dSpec& spec);

  std::string_view name() const override { return name_; }
  const Shape& output_shape() const override { return shape_; }
  void bind(const Arenas&) override {}
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;
  std::int64_t first_offset() const override { return offset_; }

 private:
  bool makes_rows() const { return shape_.rank() == 2; }

  std::string name_;
  ActivationMemory& memory_;
  std::int64_t offset_;
  std::unique_ptr<Pool2d> plan_;
  Shape shape_;
  Tensor pooled_;  ///< (N,C,H',W') or (N,C,1,1)
  Tensor rows_;    ///< (N,C) in the memory of pooled_, where it is to be rows
  ActivationMemory::Gradient dx_;
};

}  // namespace flotilla
