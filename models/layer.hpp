// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/device.hpp"
#include "models/arena.hpp"

namespace flotilla {

enum class Pass { training, inference };

/// The flat arrays that a network computes with; sizes are those of the layouts.
struct Arenas {
  DeviceSpan<float> parameters;
  DeviceSpan<float> gradients;   ///< Empty: inference only.
  DeviceSpan<float> statistics;  ///< Running statistics (batch norm); empty if there are none.
};

/// How a tensor is filled before training.
struct Initializer {
  enum class Kind { zeros, ones, uniform, normal, xavier_uniform, xavier_normal, he_uniform, he_normal };
  Kind kind = Kind::xavier_uniform;
  double scale = 0.0;  ///< uniform: the bound; normal: the deviation
};

/// One operation of a network with its parameters, activations and plans, for one batch size. It adds its
/// slices to the layouts when it is made, in forward order, and computes with the arenas it was bound to
/// last.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::string_view name() const = 0;  ///< "fc1": the start of its tensors' names
  virtual const Shape& output_shape() const = 0;
  virtual void bind(const Arenas& arenas) = 0;

  virtual const Tensor& forward(const Tensor& x, Pass pass) = 0;  ///< The result lives in the layer.
  /// x is what forward got. dy is scratch afterwards. Writes or adds the gradients of its parameters; returns
  /// the gradient of x, or null for a first layer.
  virtual Tensor* backward(const Tensor& x, Tensor& dy) = 0;

  virtual std::int64_t first_offset() const = 0;  ///< Of its first parameter in the arena.
  virtual std::int64_t activation_values()
      const = 0;  ///< Floats kept for backward, gradients of activations included.
};

}  // namespace flotilla
