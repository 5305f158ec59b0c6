// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/conv_norm.hpp"

namespace flotilla {

struct StemSpec {
  Shape input;  ///< (N,3,H,W)
  bool recompute = false;
  bool accumulate = false;
  WorkerExchange* exchange = nullptr;
};

/// The first layer of a residual network: 7×7 convolution with stride 2 ("conv1"), batch norm ("bn1"), ReLU
/// and 3×3 max pooling with stride 2.
class StemLayer : public Layer {
 public:
  StemLayer(const Building& network, const StemSpec& spec);

  std::string_view name() const override { return "conv1"; }
  const Shape& output_shape() const override { return shape_; }
  void bind(const Arenas& arenas) override { unit_.bind(arenas); }
  std::shared_ptr<const Layout> batch_layout() const override { return unit_.batch_layout(); }
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;
  /// Checks the values before the pooling, because oneDNN's max pooling ignores NaN.
  bool finite(Device& device, const Tensor&) const override {
    return device.tensors().all_finite(unit_.output());
  }
  std::int64_t first_offset() const override { return unit_.first_offset(); }

 private:
  Device& device_;
  ActivationMemory& memory_;
  bool recompute_;
  ConvNorm unit_;
  std::unique_ptr<Pool2d> pool_;
  Shape shape_;
  Tensor y_;
  ActivationMemory::Gradient dunit_;
  ActivationMemory::Gradient dy_;  ///< To time backward alone
};

}  // namespace flotilla
