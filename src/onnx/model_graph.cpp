// SPDX-License-Identifier: Apache-2.0
#include "src/onnx/model_graph.hpp"

#include <array>
#include <string>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/config.hpp"
#include "src/train/model_kinds.hpp"

namespace flotilla {

namespace {

/// The parameters and statistics of a checkpoint.
ModelTensors tensors_of(const Snapshot& weights) {
  ModelTensors tensors;
  for (const CheckpointTensor& tensor : weights.tensors)
    if (tensor.path.starts_with("parameters/") || tensor.path.starts_with("statistics/"))
      tensors[tensor.path] = {tensor.shape, weights.of(tensor)};
  return tensors;
}

/// Bytes (N,H,W,C), C = `channels`, as scaled images (N,C,H,W).
std::string add_scaling(GraphBuilder& graph, const std::string& x, const ByteScaling& scaling,
                        std::int64_t channels) {
  constexpr std::int64_t onnx_float = 1;  // TensorProto.FLOAT
  const auto of_channels = [&](const std::string& name, const std::array<float, 4>& given) {
    return graph.constant(name, {channels}, {given.begin(), given.begin() + channels});
  };
  const std::string values = graph.node("Cast", {x}, {{"to", onnx_float}});
  const std::string scaled = graph.node("Mul", {values, of_channels("pixel_factor", scaling.factor)});
  const std::string shifted = graph.node("Add", {scaled, of_channels("pixel_offset", scaling.offset)});
  return graph.node("Transpose", {shifted}, {{"perm", std::vector<std::int64_t>{0, 3, 1, 2}}});
}

/// Numbers (N, …) as they are stored, scaled by a mean and a deviation for each group of a sample's values,
/// or for all. @param input shape of a sample for the network  @param groups channels or features of a sample
std::string add_number_scaling(GraphBuilder& graph, const std::string& x, const OnnxForm& form,
                               const Shape& input, std::int64_t groups) {
  std::vector<float> factors;
  std::vector<float> offsets;
  const auto of = [](const std::vector<double>& values, std::size_t group) {
    return values[values.size() == 1 ? 0 : group];
  };
  const std::int64_t each = input.rank() == 1 ? input[0] / groups : 1;  // values of a group in a constant
  for (std::int64_t value = 0; value < groups * each; ++value) {
    const auto group = static_cast<std::size_t>(value / each);
    factors.push_back(static_cast<float>(1.0 / of(form.deviation, group)));
    offsets.push_back(static_cast<float>(-of(form.mean, group) / of(form.deviation, group)));
  }
  const Shape shape = input.rank() == 1 ? Shape{input[0]} : Shape{groups, 1, 1};
  const std::string scaled = graph.node("Mul", {x, graph.constant("input_factor", shape, factors)});
  return graph.node("Add", {scaled, graph.constant("input_offset", shape, offsets)});
}

/// Adds the nodes after the network's outputs `x`: probabilities, or numbers in units of the data.
/// @returns the name of the graph's output
std::string add_end(GraphBuilder& graph, const std::string& x, const Config& config, bool probabilities) {
  const ModelConfig& model = config.model;
  if (!model.has_classes() && model.loss != ModelLoss::binary) {
    const OutputUnits units(config);
    if (!units.is_scaled()) return "outputs";
    const auto of_columns = [&](const std::string& name, const std::vector<double>& given) {
      return graph.constant(name, {std::ssize(given)}, {given.begin(), given.end()});
    };
    const std::string scaled = graph.node("Mul", {x, of_columns("target_std", units.scales())});
    graph.node("Add", {scaled, of_columns("target_mean", units.shifts())});
    return "outputs";
  }
  if (!probabilities) return "logits";
  model.has_classes() ? graph.node("Softmax", {x}, {{"axis", std::int64_t{1}}}) : graph.node("Sigmoid", {x});
  return "probabilities";
}

/// The layers of a model, whose samples may be unknown where the first weight says what they are.
std::vector<PlannedLayer> plan_of(const ModelConfig& model, const ModelTensors& weights,
                                  const Shape& sample) {
  if (!is_listed(model))
    throw UserError(cat("model.kind = \"", model.kind,
                        "\" is a model of a program's own, which has no form in ONNX: export to a file that "
                        "ends in .h5"));
  if (model.kind != "mlp" && !model.has_embeddings()) return plan_model(model, sample, Purpose::inference);
  const auto first = weights.find("parameters/fc1.weight");
  if (first == weights.end())
    throw UserError("the checkpoint has no parameters/fc1.weight: it is of another model");
  return plan_model(model, {first->second.shape[1]}, Purpose::inference);
}

}  // namespace

OnnxGraph make_onnx_graph(const Config& config, const Snapshot& snapshot, const OnnxForm& form) {
  const ModelConfig& model = config.model;
  const ModelTensors weights = tensors_of(snapshot);
  const std::vector<PlannedLayer> layers = plan_of(model, weights, form.sample);
  const Shape& input = layers.front().input;
  const Shape& sample = form.sample;
  const bool bytes = form.preprocessing.has_value();
  require(!bytes || sample.rank() == 3, "only images are preprocessed, not samples ", sample.text());
  GraphBuilder graph(weights,
                     {.name = "input",
                      .element = bytes ? OnnxElement::uint8 : OnnxElement::float32,
                      .sample = bytes ? Shape{sample[1], sample[2], sample[0]} : input},
                     !form.keep_batch_norm);
  std::string x = "input";
  if (bytes) x = add_scaling(graph, x, *form.preprocessing, sample[0]);
  if (bytes && input.rank() == 1) x = graph.node("Flatten", {x}, {{"axis", std::int64_t{1}}});
  if (!form.mean.empty())
    x = add_number_scaling(graph, x, form, input, sample.rank() > 0 ? sample[0] : input[0]);
  x = GraphWalk(graph, layers).walk(x);
  const std::string output = add_end(graph, x, config, bytes);
  OnnxGraph made = graph.finish({.name = output, .sample = {model.output_width()}});
  made.name = model.kind;
  return made;
}

}  // namespace flotilla
