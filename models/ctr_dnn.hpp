// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/network.hpp"

namespace flotilla {

/// The dense part of a click model (CTR-DNN: docs/fleet.md, "Clicks"): an MLP of two classes over the
/// features that EmbeddingBags makes, with weights ~ Normal(0, 1/√inputs). It computes the gradient of the
/// features too: Network::input_gradient().
struct CtrDnnSpec {
  std::int64_t batch = 0;
  std::int64_t features = 0;
  std::vector<std::int64_t> widths = {400, 400, 400};  ///< Hidden layers; may be empty
  Activation activation = Activation::relu;
  float label_smoothing = 0.0F;
  bool accumulate = false;  ///< backward adds to the gradients (micro-steps)
  float dropout = 0.0F;     ///< After each hidden layer
  std::uint64_t dropout_seed = 0;
  Purpose purpose = Purpose::training;
};

inline constexpr std::int64_t click_classes = 2;  ///< Not clicked, clicked

std::unique_ptr<Network> make_ctr_dnn(Device& device, const CtrDnnSpec& spec);

}  // namespace flotilla
