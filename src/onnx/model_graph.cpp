// SPDX-License-Identifier: Apache-2.0
#include "src/onnx/model_graph.hpp"

#include <string>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/output_units.hpp"
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

/// What comes behind the network's outputs `x`: probabilities, or numbers in units of the data.
/// @returns the name of the graph's output
std::string add_end(GraphBuilder& graph, const std::string& x, const Config& config, bool probabilities) {
  const ModelConfig& model = config.model;
  if (!model.has_classes() && model.loss != ModelLoss::binary) {
    const OutputUnits units(config);
    if (units.is_scaled()) graph.scaled_rows(x, units.scales(), units.shifts());
    return "outputs";
  }
  if (!probabilities) return "logits";
  model.has_classes() ? graph.softmax(x) : graph.activation(x, Activation::sigmoid);
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
  if (bytes) x = graph.scaled_images(x, *form.preprocessing, sample[0]);
  if (bytes && input.rank() == 1) x = graph.flatten(x);
  x = add_layers(graph, x, layers);
  const std::string output = add_end(graph, x, config, bytes);
  OnnxGraph made = graph.finish({.name = output, .sample = {model.output_width()}});
  made.name = model.kind;
  return made;
}

}  // namespace flotilla
