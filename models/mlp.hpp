// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "models/network.hpp"

namespace flotilla {

/// A multilayer perceptron: linear layers "fc1", "fc2", … with an activation between them
/// (Fleet's MNIST example is 784-128-128-10 with tanh: docs/fleet.md, "Images").
struct MlpSpec {
  Shape input;                       ///< (N, …): everything after the batch is flattened
  std::vector<std::int64_t> widths;  ///< Hidden layers; may be empty
  std::int64_t classes = 0;
  Activation activation = Activation::tanh;
  Initializer initializer;  ///< Of the weights; biases are zero
  float label_smoothing = 0.0F;
  std::optional<OutputLoss> loss{};  ///< As NetworkSpec has it
  bool accumulate = false;           ///< backward adds to the gradients (micro-steps)
  float dropout = 0.0F;              ///< After each hidden layer
  std::uint64_t dropout_seed = 0;
  bool input_gradient = false;  ///< backward leaves Network::input_gradient()
  Purpose purpose = Purpose::training;
};

std::unique_ptr<Network> make_mlp(Device& device, const MlpSpec& spec);

}  // namespace flotilla
