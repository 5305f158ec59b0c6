// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "kernels/tensor.hpp"

namespace flotilla {

enum class OnnxElement { float32, uint8 };

/// The input or the output of a graph; its first axis is the batch, of any size, named "N".
struct OnnxValue {
  std::string name;
  OnnxElement element = OnnxElement::float32;
  Shape sample{};  ///< The axes behind the batch
};

/// Constant float32 values, row-major.
struct OnnxTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

/// Attributes of a node by their names in the ONNX operator specification.
using OnnxAttributes = std::map<std::string, std::variant<std::int64_t, float, std::vector<std::int64_t>>>;

/// An operator of ONNX's default domain, opset 17. `inputs` name the graph's input, outputs of earlier nodes
/// and tensors.
struct OnnxNode {
  std::string operation;
  std::vector<std::string> inputs;
  std::string output;
  OnnxAttributes attributes{};
};

/// A model as ONNX describes it: nodes in an order in which they can be computed, and their constants.
struct OnnxGraph {
  std::string name;
  OnnxValue input;
  OnnxValue output;
  std::vector<OnnxNode> nodes{};
  std::vector<OnnxTensor> tensors{};
  std::map<std::string, std::string> metadata{};
};

}  // namespace flotilla
