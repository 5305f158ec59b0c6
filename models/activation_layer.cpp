// SPDX-License-Identifier: Apache-2.0
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

LayerKind kind_of(Activation activation) {
  return {
      .word = word_of(activation),
      .usage = word_of(activation),
      .make = [](LayerBuilder& builder, const PlannedLayer& layer) -> std::unique_ptr<Layer> {
        return std::make_unique<ActivationLayer>(
            builder.building(layer), layer.name,
            ElementwiseSpec{.input = builder.batch_of(layer.input), .function = layer.kind->activation});
      },
      .graph = [](GraphWalk& walk, const std::string& x,
                  const PlannedLayer& layer) { return walk.graph().activation(x, layer.kind->activation); },
      .activation = activation};
}

}  // namespace flotilla
