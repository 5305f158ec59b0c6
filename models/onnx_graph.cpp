// SPDX-License-Identifier: Apache-2.0
#include "models/onnx_graph.hpp"

#include <cmath>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/layers/batch_norm.hpp"

namespace flotilla {

namespace {

const std::string parameters = "parameters/";
const std::string statistics = "statistics/";

}  // namespace

GraphBuilder::GraphBuilder(const ModelTensors& weights, OnnxValue input, bool folds)
    : weights_(weights), folds_(folds) {
  graph_.input = std::move(input);
}

std::vector<std::string> GraphBuilder::weighted(const std::string& x, const std::string& name, bool bias,
                                                const std::string& norm) {
  if (norm.empty()) {
    std::vector<std::string> inputs = {x, parameter(name + ".weight")};
    if (bias) inputs.push_back(parameter(name + ".bias"));
    return inputs;
  }
  const Shape& shape = find(parameters + name + ".weight").shape;
  std::vector<float> weight = values(parameters + name + ".weight");
  const auto channels = static_cast<std::size_t>(shape[0]);
  std::vector<float> shift = bias ? values(parameters + name + ".bias") : std::vector<float>(channels, 0.0F);
  const std::vector<float> scale = values(parameters + norm + ".weight");
  const std::vector<float> offset = values(parameters + norm + ".bias");
  const std::vector<float> mean = values(statistics + norm + ".running_mean");
  const std::vector<float> variance = values(statistics + norm + ".running_var");
  require(scale.size() == channels && mean.size() == channels, norm, " does not fit ", name);
  const std::size_t row = weight.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    const double factor = double{scale[c]} / std::sqrt(double{variance[c]} + double{BatchNormSpec().epsilon});
    for (float& value : std::span(weight).subspan(c * row, row))
      value = static_cast<float>(double{value} * factor);
    shift[c] = static_cast<float>((double{shift[c]} - double{mean[c]}) * factor + double{offset[c]});
  }
  return {x, constant(name + ".weight", shape, std::move(weight)),
          constant(name + ".bias", {shape[0]}, std::move(shift))};
}

OnnxGraph GraphBuilder::finish(OnnxValue output) {
  for (const auto& [path, tensor] : weights_)
    if (!used_.contains(path))
      throw UserError(cat("the checkpoint has ", path,
                          ", which the model of its deck does not: export it from the run that wrote it"));
  graph_.nodes.back().output = output.name;
  graph_.output = std::move(output);
  return std::move(graph_);
}

std::string GraphBuilder::node(const std::string& operation, std::vector<std::string> inputs,
                               OnnxAttributes attributes, const std::string& name) {
  std::string output = name.empty() ? cat(operation, "_", graph_.nodes.size()) : name;
  graph_.nodes.push_back({.operation = operation,
                          .inputs = std::move(inputs),
                          .output = output,
                          .attributes = std::move(attributes)});
  return output;
}

const ModelTensor& GraphBuilder::find(const std::string& path) {
  const auto found = weights_.find(path);
  if (found == weights_.end())
    throw UserError(cat("the checkpoint has no ", path,
                        ", which the model of its deck needs: export it from the run that wrote it"));
  used_.insert(path);
  return found->second;
}

std::vector<float> GraphBuilder::values(const std::string& path) {
  const std::span<const float> found = find(path).values;
  return {found.begin(), found.end()};
}

std::string GraphBuilder::constant(const std::string& name, const Shape& shape, std::vector<float> values) {
  graph_.tensors.push_back({.name = name, .shape = shape, .values = std::move(values)});
  return name;
}

std::string GraphBuilder::parameter(const std::string& name) {
  const std::string path = parameters + name;
  return constant(name, find(path).shape, values(path));
}

std::string GraphBuilder::statistic(const std::string& name) {
  const std::string path = statistics + name;
  return constant(name, find(path).shape, values(path));
}

std::string GraphBuilder::scalar(float value) {
  return constant(cat("constant_", graph_.tensors.size()), {1}, {value});
}

}  // namespace flotilla
