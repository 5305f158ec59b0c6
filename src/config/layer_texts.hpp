// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "models/layer_list.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// The layer that this text describes ("conv 32 3 padding 1").
/// @throws UserError saying what is wrong with the text, and how to write such a layer
ListedLayer parse_layer(const std::string& text);

/// model.layers, with their places in the deck. @throws UserError as parse_layer() does
LayerList layers_of(const ModelConfig& model);

}  // namespace flotilla
