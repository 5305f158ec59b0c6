// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "models/onnx_graph.hpp"

namespace flotilla {

/// @throws UserError unless this build can write ONNX files
void check_onnx();

/// Writes an ONNX file of IR version 8 and opset 17 (onnx 1.12), atomically, replacing what was there. The
/// metadata become metadata_props. @param version of Flotilla
/// @throws UserError as check_onnx(), if the file cannot be written, and for more values than the format
/// holds
void write_onnx(const std::string& path, const OnnxGraph& graph, const std::string& version);

}  // namespace flotilla
