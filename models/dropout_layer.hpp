// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/layer.hpp"

namespace flotilla {

/// Dropout (kernels/layers/dropout.hpp); the identity in inference. The mask belongs to places in the
/// storage: that of an image depends on how the device arranges images.
class DropoutLayer : public Layer {
 public:
  DropoutLayer(const Building& network, std::string name, const DropoutSpec& spec);

  std::string_view name() const override { return name_; }
  const Shape& output_shape() const override { return shape_; }
  void bind(const Arenas&) override {}
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;
  std::int64_t first_offset() const override { return offset_; }

 private:
  void mask(const Tensor& x);

  std::string name_;
  Shape shape_;
  std::int64_t offset_;
  Shape rows_;  ///< (N, values of a sample)
  std::unique_ptr<Dropout> plan_;
  std::uint64_t draw_ = 0;  ///< Of the last training pass
  Tensor y_;
};

}  // namespace flotilla
