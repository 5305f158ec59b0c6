// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"
#include "src/config/config.hpp"
#include "src/config/layer_texts.hpp"

namespace flotilla {

/// A layer of model.layers with its name and shapes, (C,H,W) of an image or (values) of a row.
struct PlannedLayer {
  std::string
      name;  ///< Its place among its neighbours, from 0, behind that of the residual that it is in: "5.0"
  std::string text;  ///< As the deck has it
  LayerText layer;
  Shape input;
  Shape output{};
  std::int64_t parameters = 0;
  std::int64_t shortcut_stride = 0;  ///< end: of the projection; 0: there is none
};

/// A sample as layers take it: one of two sizes is an image of one channel, (1,H,W).
Shape layer_input(const Shape& sample);

/// The layers of a deck of model.kind = "layers" for samples of this shape.
/// @throws UserError naming the deck's line and the layer that does not fit what comes before or behind it
std::vector<PlannedLayer> plan_layers(const ModelConfig& model, const Shape& sample);

/// A table of the layers with their shapes and parameters, for `train --check`.
std::vector<std::string> describe_layers(const std::vector<PlannedLayer>& layers);

}  // namespace flotilla
