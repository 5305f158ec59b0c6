// SPDX-License-Identifier: Apache-2.0
#include "models/graph_builder.hpp"

#include <cmath>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/layers/batch_norm.hpp"
#include "kernels/layers/layer_norm.hpp"

namespace flotilla {

namespace {

const std::string parameters = "parameters/";
const std::string statistics = "statistics/";

std::vector<std::int64_t> both(std::int64_t value) {
  return {value, value};
}

std::vector<std::int64_t> all_sides(std::int64_t value) {
  return {value, value, value, value};
}

}  // namespace

GraphBuilder::GraphBuilder(const ModelTensors& weights, OnnxValue input, bool folds)
    : weights_(weights), folds_(folds) {
  graph_.input = std::move(input);
}

std::string GraphBuilder::convolution(const std::string& x, const Convolution& layer) {
  const Shape& weight = find(parameters + layer.name + ".weight").shape;
  const std::string y = add("Conv", weighted(x, layer.name, layer.bias, layer.norm),
                            {{"kernel_shape", std::vector<std::int64_t>{weight[2], weight[3]}},
                             {"strides", both(layer.stride)},
                             {"pads", all_sides(layer.padding)}},
                            layer.name);
  return layer.norm.empty() || folds_ ? y : batch_norm(y, layer.norm);
}

std::string GraphBuilder::linear(const std::string& x, const std::string& name, const std::string& norm) {
  const std::string y = add("Gemm", weighted(x, name, true, norm), {{"transB", std::int64_t{1}}}, name);
  return norm.empty() || folds_ ? y : batch_norm(y, norm);
}

std::vector<std::string> GraphBuilder::weighted(const std::string& x, const std::string& name, bool bias,
                                                const std::string& norm) {
  if (norm.empty() || !folds_) {
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

std::string GraphBuilder::batch_norm(const std::string& x, const std::string& name) {
  const auto statistic = [&](const std::string& ending) {
    const std::string path = statistics + name + ending;
    return constant(name + ending, find(path).shape, values(path));
  };
  return add("BatchNormalization",
             {x, parameter(name + ".weight"), parameter(name + ".bias"), statistic(".running_mean"),
              statistic(".running_var")},
             {{"epsilon", BatchNormSpec().epsilon}}, name);
}

std::string GraphBuilder::layer_norm(const std::string& x, const std::string& name) {
  return add("LayerNormalization", {x, parameter(name + ".weight"), parameter(name + ".bias")},
             {{"axis", std::int64_t{-1}}, {"epsilon", LayerNormSpec().epsilon}}, name);
}

std::string GraphBuilder::activation(const std::string& x, Activation function) {
  switch (function) {
    case Activation::identity: return x;
    case Activation::relu: return add("Relu", {x});
    case Activation::tanh: return add("Tanh", {x});
    case Activation::sigmoid: return add("Sigmoid", {x});
    case Activation::gelu: {
      const std::string error_function = add("Erf", {add("Mul", {x, scalar(std::sqrt(0.5F))})});
      const std::string doubled = add("Add", {error_function, scalar(1.0F)});
      return add("Mul", {add("Mul", {x, scalar(0.5F)}), doubled});
    }
    case Activation::silu: break;
  }
  return add("Mul", {x, add("Sigmoid", {x})});
}

std::string GraphBuilder::pool(const std::string& x, const Pool2dSpec& spec) {
  if (spec.kind == Pooling::global_average) return flatten(add("GlobalAveragePool", {x}));
  OnnxAttributes attributes = {
      {"kernel_shape", both(spec.kernel)}, {"strides", both(spec.stride)}, {"pads", all_sides(spec.padding)}};
  if (spec.kind == Pooling::max) return add("MaxPool", {x}, std::move(attributes));
  attributes["count_include_pad"] = std::int64_t{spec.kind == Pooling::average_including_padding ? 1 : 0};
  return add("AveragePool", {x}, std::move(attributes));
}

std::string GraphBuilder::sum(const std::string& x, const std::string& y) {
  return add("Add", {x, y});
}

std::string GraphBuilder::flatten(const std::string& x) {
  return add("Flatten", {x}, {{"axis", std::int64_t{1}}});
}

std::string GraphBuilder::scaled_images(const std::string& x, const ByteScaling& scaling,
                                        std::int64_t channels) {
  constexpr std::int64_t onnx_float = 1;  // TensorProto.FLOAT
  const auto of_channels = [&](const std::string& name, const std::array<float, 4>& given) {
    return constant(name, {channels}, {given.begin(), given.begin() + channels});
  };
  const std::string values = add("Cast", {x}, {{"to", onnx_float}});
  const std::string scaled = add("Mul", {values, of_channels("pixel_factor", scaling.factor)});
  const std::string shifted = add("Add", {scaled, of_channels("pixel_offset", scaling.offset)});
  return add("Transpose", {shifted}, {{"perm", std::vector<std::int64_t>{0, 3, 1, 2}}});
}

std::string GraphBuilder::softmax(const std::string& x) {
  return add("Softmax", {x}, {{"axis", std::int64_t{1}}});
}

std::string GraphBuilder::scaled_rows(const std::string& x, const std::vector<double>& scale,
                                      const std::vector<double>& shift) {
  const auto of_columns = [&](const std::string& name, const std::vector<double>& given) {
    return constant(name, {std::ssize(given)}, {given.begin(), given.end()});
  };
  const std::string scaled = add("Mul", {x, of_columns("target_std", scale)});
  return add("Add", {scaled, of_columns("target_mean", shift)});
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

std::string GraphBuilder::add(const std::string& operation, std::vector<std::string> inputs,
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

std::string GraphBuilder::scalar(float value) {
  return constant(cat("constant_", graph_.tensors.size()), {1}, {value});
}

}  // namespace flotilla
