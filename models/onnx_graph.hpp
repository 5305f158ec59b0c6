// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
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
  Shape sample{};  ///< The axes after the batch axis
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

/// The values of a tensor of a trained model, row-major.
struct ModelTensor {
  Shape shape;
  std::span<const float> values;
};

/// By path: "parameters/fc1.weight", "statistics/bn1.running_mean".
using ModelTensors = std::map<std::string, ModelTensor>;

/// Makes an OnnxGraph node by node, with the tensors of a checkpoint. Values are named by strings: a node's
/// inputs are the graph's input, outputs of earlier nodes and constants, and the result is the name of its
/// output.
class GraphBuilder {
 public:
  /// @param weights must outlive the builder  @param folds batch norms go into the weights of the layer
  /// before
  GraphBuilder(const ModelTensors& weights, OnnxValue input, bool folds);
  bool folds() const { return folds_; }

  /// @param name of the output; empty: a name is generated
  std::string node(const std::string& operation, std::vector<std::string> inputs,
                   OnnxAttributes attributes = {}, const std::string& name = {});
  std::string constant(const std::string& name, const Shape& shape, std::vector<float> values);
  std::string scalar(float value);
  /// Constants of the checkpoint. @throws UserError if it has none of that name
  std::string parameter(const std::string& name);
  std::string statistic(const std::string& name);
  /// The inputs of a convolution or linear layer: x, weight and bias.
  /// @param norm the batch norm after it, which is folded into them; empty: none
  std::vector<std::string> weighted(const std::string& x, const std::string& name, bool bias,
                                    const std::string& norm);

  /// The graph, whose last node becomes `output`. @throws UserError naming the first parameter or statistic
  /// of the checkpoint that no layer took.
  OnnxGraph finish(OnnxValue output);

 private:
  const ModelTensor& find(const std::string& path);
  std::vector<float> values(const std::string& path);

  const ModelTensors& weights_;
  bool folds_;
  OnnxGraph graph_;
  std::set<std::string> used_;
};

}  // namespace flotilla
