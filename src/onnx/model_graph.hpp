// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/host_batch.hpp"
#include "models/onnx_graph.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// The form of an exported model.
struct OnnxForm {
  Shape sample{};                ///< (C,H,W) of images, (values) of rows; of click models and MLPs not needed
  bool keep_batch_norm = false;  ///< True: as nodes; false: folded into the weights before them
  /// The input is images of bytes (N,H,W,C) that are scaled so, the output probabilities instead of logits.
  std::optional<ByteScaling> preprocessing{};
  /// The input is numbers as they are stored, which the model scales so: one mean and deviation, or one for
  /// each channel or feature; empty: they are scaled.
  std::vector<double> mean{};
  std::vector<double> deviation{};
};

/// The inference pass of a deck's model with the weights of its checkpoint. Input `input`, (N, …) normalised;
/// output `logits` (N, classes), of numbers `outputs` (N, outputs) in units of the data. For a click model,
/// the part after the embeddings: its input is (N, dense values + slots · embedding width). @throws UserError
/// for a model of a user's own, or weights of another model
OnnxGraph make_onnx_graph(const Config& config, const Snapshot& weights, const OnnxForm& form);

/// @throws UserError unless this build can write ONNX files
void check_onnx();

/// Writes an ONNX file of IR version 8 and opset 17 (onnx 1.12), atomically, replacing what was there. The
/// metadata become metadata_props. @param version of Flotilla
/// @throws UserError as check_onnx(), if the file cannot be written, and for more values than the format
/// holds
void write_onnx(const std::string& path, const OnnxGraph& graph, const std::string& version);

}  // namespace flotilla
