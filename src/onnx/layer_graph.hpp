// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "src/config/config.hpp"
#include "src/onnx/graph_builder.hpp"

namespace flotilla {

/// Appends the layers of model.kind = "layers" for samples of this shape, (N, …) of which `x` names.
/// @returns the name of the logits. @throws UserError as plan_layers() does
std::string add_layers(GraphBuilder& graph, const std::string& x, const ModelConfig& model,
                       const Shape& sample);

}  // namespace flotilla
