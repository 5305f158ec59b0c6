// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/network.hpp"
#include "models/worker_exchange.hpp"

namespace flotilla {

/// A residual network for images (He et al. 2016, "v1.5": the stride on the 3×3). Tensors have
/// torchvision's names and shapes. Convolutions begin with He normal values of fan-out, batch norms with 1
/// and 0, the last layer with uniform ±1/√C and zero biases (docs/fleet.md, "Images").
struct ResnetSpec {
  std::int64_t depth = 50;  ///< 18, 34, 50, 101, 152
  Shape input;              ///< (N,3,H,W)
  std::int64_t classes = 1000;
  float label_smoothing = 0.0F;
  std::optional<OutputLoss> loss{};  ///< As NetworkSpec has it
  bool accumulate = false;           ///< backward adds to the gradients (micro-steps)
  float dropout = 0.0F;              ///< Before the last layer
  std::uint64_t dropout_seed = 0;
  /// Parts that keep their output only and are computed again in backward: "layer1.0", "layer1" (all its
  /// blocks), "conv1", or "blocks" (all of these). Results keep their bits.
  std::vector<std::string> recompute{};
  WorkerExchange* exchange = nullptr;  ///< Null: batch norm of each worker's own batch; must outlive it
  Purpose purpose = Purpose::training;
};

/// @throws UserError for an unknown depth or name, or if a batch norm would get a single value per channel.
std::unique_ptr<Network> make_resnet(Device& device, const ResnetSpec& spec);

}  // namespace flotilla
