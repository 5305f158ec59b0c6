// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/norm.hpp"

namespace flotilla {

/// The memory of the two tensors of a ConvNorm: kept for backward, or in shared slots of ActivationMemory.
/// Both in one slot: the normalisation is done in place.
struct ConvNormPlaces {
  std::optional<std::size_t> convolved;   ///< None: kept
  std::optional<std::size_t> normalised;  ///< None: kept
};

struct ConvNormSpec {
  std::string convolution;  ///< "layer1.0.conv1"
  std::string norm;         ///< "layer1.0.bn1"
  Conv2dSpec conv;          ///< Without bias
  AfterNorm after = AfterNorm::relu;
  ConvNormPlaces places{};
  WorkerExchange* exchange = nullptr;
};

/// A convolution, batch norm and the activation: the unit of residual networks.
class ConvNorm {
 public:
  ConvNorm(const Building& network, const ConvNormSpec& spec);
  const Shape& output_shape() const { return shape_; }
  void bind(const Arenas& arenas);
  std::shared_ptr<const Layout> batch_layout() const { return conv_->batch_layout(); }
  const Tensor& forward(const Tensor& x, const Tensor* residual, const PassInfo& info);
  /// Recomputes the tensors that backward reads and that were not kept.
  const Tensor& replay(const Tensor& x, bool normalise);
  /// Frees the tensors of dy. With `residual` it keeps dy.first, which becomes the gradient of the residual,
  /// *residual. Returns the gradient of x, null if the convolution has none.
  Tensor* backward(const Tensor& x, OutputGradient dy, Tensor** residual);
  void time_alone(const Tensor& x, const Tensor* residual, TimedOperations& operations);
  std::int64_t first_offset() const { return weight_slice_.offset; }
  const Tensor& output() const { return normalised_; }

 private:
  std::string name_;
  ActivationMemory& memory_;
  std::unique_ptr<Conv2d> conv_;
  AfterNorm after_;
  bool input_gradient_;
  double flop_;
  Slice weight_slice_;
  Weights weights_;
  Gradients gradients_;
  std::string norm_name_;
  Norm norm_;
  Shape shape_;
  Tensor convolved_;
  Tensor normalised_;
  ActivationMemory::Gradient dconvolved_;
  ActivationMemory::Gradient dx_;
};

}  // namespace flotilla
