// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/layer_list.hpp"

// The models that decks name, as lists of layers.

namespace flotilla {

/// A multilayer perceptron over rows: linear layers "fc1", "fc2", … with an activation between them
/// (Fleet's MNIST example is 784-128-128-10 with tanh: docs/fleet.md, "Images"). Over the features that
/// EmbeddingBags makes it is the dense part of a click model (CTR-DNN: docs/fleet.md, "Clicks").
struct MlpSpec {
  std::vector<std::int64_t> widths;  ///< Hidden layers; may be empty
  std::int64_t outputs = 0;
  Activation activation = Activation::tanh;
  double dropout = 0.0;  ///< After each hidden layer
};
LayerList mlp_layers(const MlpSpec& spec);

/// A residual network for images of three channels (He et al. 2016, "v1.5": the stride on the 3×3). Tensors
/// have torchvision's names and shapes. Convolutions begin with He normal values of fan-out, batch norms with
/// 1 and 0, the last layer with uniform ±1/√C and zero biases (docs/fleet.md, "Images").
struct ResnetSpec {
  std::int64_t depth = 50;  ///< 18, 34, 50, 101, 152
  std::int64_t outputs = 1000;
  double dropout = 0.0;  ///< Before the last layer
  /// Parts that keep their output only and are computed again in backward: "layer1.0", "layer1" (all its
  /// blocks), "conv1", or "blocks" (all of these). Results keep their bits.
  std::vector<std::string> recompute{};
  Purpose purpose = Purpose::training;
};
/// @throws UserError for an unknown depth or name
LayerList resnet_layers(const ResnetSpec& spec);

}  // namespace flotilla
