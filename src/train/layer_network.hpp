// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "src/train/model_kinds.hpp"

namespace flotilla {

/// The network of model.kind = "layers". Tensors are named as torch.nn.Sequential's of these layers:
/// "0.weight".
std::unique_ptr<Network> make_layer_network(Device& device, const Config& config, const NetworkUse& use);

}  // namespace flotilla
