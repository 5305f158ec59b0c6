// SPDX-License-Identifier: Apache-2.0
#include "src/onnx/model_graph.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/error.hpp"
#include "models/layer_list.hpp"
#include "src/config/layer_texts.hpp"
#include "src/config/output_units.hpp"

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

/// Null: there is none.
const ModelTensor* find_parameter(const ModelTensors& weights, const std::string& name) {
  const auto found = weights.find("parameters/" + name);
  return found == weights.end() ? nullptr : &found->second;
}

/// The layers of make_mlp(), models/mlp.hpp.
std::string add_mlp(GraphBuilder& graph, std::string x, const ModelConfig& model) {
  for (std::size_t i = 1; i <= model.widths.size(); ++i)
    x = graph.activation(graph.linear(x, cat("fc", i)), model.activation);
  return graph.linear(x, cat("fc", model.widths.size() + 1));
}

/// A block of make_resnet(), models/resnet.hpp: as many convolutions as there are weights, the stride at the
/// first one of 3×3 values.
std::string add_block(GraphBuilder& graph, const std::string& x, const std::string& name, std::int64_t stride,
                      const ModelTensors& weights) {
  std::string y = x;
  for (int i = 1;; ++i) {
    const ModelTensor* weight = find_parameter(weights, cat(name, ".conv", i, ".weight"));
    if (weight == nullptr) break;
    if (i > 1) y = graph.activation(y, Activation::relu);
    const std::int64_t kernel = weight->shape[2];
    y = graph.convolution(y, {.name = cat(name, ".conv", i),
                              .stride = kernel == 3 ? std::exchange(stride, 1) : 1,
                              .padding = kernel / 2,
                              .norm = cat(name, ".bn", i)});
  }
  return y;
}

std::string add_resnet(GraphBuilder& graph, std::string x, const ModelTensors& weights) {
  x = graph.convolution(x, {.name = "conv1", .stride = 2, .padding = 3, .norm = "bn1"});
  x = graph.activation(x, Activation::relu);
  x = graph.pool(x, {.input = {}, .kind = Pooling::max, .kernel = 3, .stride = 2, .padding = 1});
  for (int stage = 1; stage <= 4; ++stage)
    for (int block = 0;; ++block) {
      const std::string name = cat("layer", stage, ".", block);
      if (find_parameter(weights, name + ".conv1.weight") == nullptr) break;
      const std::int64_t stride = stage > 1 && block == 0 ? 2 : 1;
      const bool projects = find_parameter(weights, name + ".downsample.0.weight") != nullptr;
      const std::string shortcut =
          projects
              ? graph.convolution(
                    x, {.name = name + ".downsample.0", .stride = stride, .norm = name + ".downsample.1"})
              : x;
      x = graph.activation(graph.sum(add_block(graph, x, name, stride, weights), shortcut), Activation::relu);
    }
  return graph.linear(graph.pool(x, {.input = {}, .kind = Pooling::global_average}), "fc");
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

/// What the network takes: rows of an MLP, else samples of the data.
Shape input_of(const ModelConfig& model, const ModelTensors& weights, const Shape& sample) {
  if (model.kind == "layers") return layer_input(sample);
  if (model.kind != "mlp" && !model.has_embeddings()) return sample;
  const ModelTensor* first = find_parameter(weights, "fc1.weight");
  if (first == nullptr)
    throw UserError("the checkpoint has no parameters/fc1.weight: it is of another model");
  return {first->shape[1]};
}

}  // namespace

OnnxGraph make_onnx_graph(const Config& config, const Snapshot& snapshot, const OnnxForm& form) {
  const ModelConfig& model = config.model;
  const ModelTensors weights = tensors_of(snapshot);
  const Shape input = input_of(model, weights, form.sample);
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
  if (model.kind == "mlp" || model.has_embeddings()) {
    x = add_mlp(graph, x, model);
  } else if (model.kind == "resnet") {
    x = add_resnet(graph, x, weights);
  } else if (model.kind == "layers") {
    x = add_layers(graph, x, plan_layers(layers_of(model), sample));
  } else {
    throw UserError(cat("model.kind = \"", model.kind,
                        "\" is a model of a program's own, which has no form in ONNX: export to a file that "
                        "ends in .h5"));
  }
  const std::string output = add_end(graph, x, config, bytes);
  OnnxGraph made = graph.finish({.name = output, .sample = {model.output_width()}});
  made.name = model.kind;
  return made;
}

}  // namespace flotilla
