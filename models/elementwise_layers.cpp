// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <utility>

#include "kernels/trace.hpp"
#include "models/layer_list.hpp"
#include "models/layers.hpp"

namespace flotilla {

ActivationLayer::ActivationLayer(const Building& network, std::string name, const ElementwiseSpec& spec)
    : Layer(network, std::move(name), spec.input), plan_(network.device.layers().elementwise(spec)) {
  network.memory.keep(spec.input, y_);
  network.memory.plan_gradient(spec.input, dy_);
}

const Tensor& ActivationLayer::forward(const Tensor& x, const PassInfo&) {
  const trace::Span span("activation forward");
  plan_->forward(x, y_);
  return y_;
}

OutputGradient ActivationLayer::backward(const Tensor& x, OutputGradient dy) {
  const trace::Span span("activation backward");
  plan_->backward(x, y_, single(dy), *dy.first);
  return dy;
}

void ActivationLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  operations.forward.push_back(
      {name() + " forward", "activation", 0.0, [this, &x] { plan_->forward(x, y_); }});
  operations.backward.push_back({name() + " backward", "activation", 0.0, [this, &x] {
                                   Tensor& dy = ActivationMemory::view(dy_, 0);
                                   plan_->backward(x, y_, dy, dy);
                                 }});
}

namespace {

std::string add_activation(GraphBuilder& graph, const std::string& x, Activation function) {
  switch (function) {
    case Activation::identity: return x;
    case Activation::relu: return graph.node("Relu", {x});
    case Activation::tanh: return graph.node("Tanh", {x});
    case Activation::sigmoid: return graph.node("Sigmoid", {x});
    case Activation::gelu: {
      const std::string error_function =
          graph.node("Erf", {graph.node("Mul", {x, graph.scalar(std::sqrt(0.5F))})});
      const std::string doubled = graph.node("Add", {error_function, graph.scalar(1.0F)});
      return graph.node("Mul", {graph.node("Mul", {x, graph.scalar(0.5F)}), doubled});
    }
    case Activation::silu: break;
  }
  return graph.node("Mul", {x, graph.node("Sigmoid", {x})});
}

}  // namespace

LayerKind kind_of(Activation activation) {
  return {.word = word_of(activation),
          .usage = word_of(activation),
          .make = [](LayerBuilder& builder, const PlannedLayer& layer) -> std::unique_ptr<Layer> {
            return std::make_unique<ActivationLayer>(
                builder.building(layer), layer.name,
                ElementwiseSpec{.input = builder.batch_of(layer.input), .function = layer.kind->activation});
          },
          .graph =
              [](GraphWalk& walk, const std::string& x, const PlannedLayer& layer) {
                return add_activation(walk.graph(), x, layer.kind->activation);
              },
          .activation = activation};
}

DropoutLayer::DropoutLayer(const Building& network, std::string name, const DropoutSpec& spec)
    : Layer(network, std::move(name), spec.input),
      rows_{spec.input[0], spec.input.size() / spec.input[0]},
      plan_(network.device.layers().dropout(
          {.input = rows_, .probability = spec.probability, .seed = spec.seed, .layer = spec.layer})) {
  if (network.memory.purpose() == Purpose::training) network.memory.keep(spec.input, y_);
}

void DropoutLayer::mask(const Tensor& x) {
  Tensor y = plain_view(y_, rows_);
  plan_->forward(draw_, plain_view(x, rows_), y);
}

const Tensor& DropoutLayer::forward(const Tensor& x, const PassInfo& info) {
  if (info.pass == Pass::inference) return x;
  draw_ = info.draw;
  mask(x);
  return y_;
}

OutputGradient DropoutLayer::backward(const Tensor&, OutputGradient dy) {
  Tensor rows = plain_view(single(dy), rows_);
  plan_->backward(draw_, rows, rows);
  return dy;
}

void DropoutLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  operations.forward.push_back({name() + " forward", "dropout", 0.0, [this, &x] { mask(x); }});
  operations.backward.push_back({name() + " backward", "dropout", 0.0, [this] { mask(y_); }});
}

const LayerKind dropout_kind = {
    .word = "dropout",
    .usage = "dropout SHARE",
    .read = [](ArgumentReader& reader, LayerArguments& layer) { layer.probability = reader.share(); },
    .make = [](LayerBuilder& builder, const PlannedLayer& layer) -> std::unique_ptr<Layer> {
      return std::make_unique<DropoutLayer>(
          builder.building(layer), layer.name,
          DropoutSpec{.input = builder.batch_of(layer.input),
                      .probability = static_cast<float>(layer.arguments.probability),
                      .seed = builder.use().seed,
                      .layer = builder.next_dropout()});
    },
    .graph = [](GraphWalk&, const std::string& x, const PlannedLayer&) { return x; }};

}  // namespace flotilla
