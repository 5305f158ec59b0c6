// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tensor.hpp"

namespace flotilla {

/// A layer's parameters and their gradients, as ranges of the arenas in the layout that the plan asked for.
struct Weights {
  DeviceSpan<const float> weight;
  DeviceSpan<const float> bias;  ///< Empty without bias.
  /// Both as Tensors::round leaves them; read only if DeviceInfo::reads_halves.
  GivenHalfSpan half_weight = {};
  GivenHalfSpan half_bias = {};
};
struct Gradients {
  DeviceSpan<float> weight;
  DeviceSpan<float> bias;
};

}  // namespace flotilla
