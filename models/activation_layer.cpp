// SPDX-License-Identifier: Apache-2.0
#include "models/activation_layer.hpp"

#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/layer_list.hpp"

namespace flotilla {

ActivationLayer::ActivationLayer(const Building& network, std::string name, const ElementwiseSpec& spec)
    : name_(std::move(name)),
      offset_(network.parameters.layout().size()),
      plan_(network.device.layers().elementwise(spec)),
      shape_(spec.input) {
  network.memory.keep(shape_, y_);
  network.memory.plan_gradient(shape_, dy_);
}

const Tensor& ActivationLayer::forward(const Tensor& x, const PassInfo&) {
  const trace::Span span("activation forward");
  plan_->forward(x, y_);
  return y_;
}

OutputGradient ActivationLayer::backward(const Tensor& x, OutputGradient dy) {
  const trace::Span span("activation backward");
  require(dy.more == nullptr, name_, " cannot add two gradients");
  plan_->backward(x, y_, *dy.first, *dy.first);
  return dy;
}

void ActivationLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  operations.forward.push_back(
      {name_ + " forward", "activation", 0.0, [this, &x] { plan_->forward(x, y_); }});
  operations.backward.push_back({name_ + " backward", "activation", 0.0, [this, &x] {
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
            builder.building(), layer.name,
            ElementwiseSpec{.input = builder.batch_of(layer.input), .function = layer.kind->activation});
      },
      .graph = [](GraphWalk& walk, const std::string& x,
                  const PlannedLayer& layer) { return walk.graph().activation(x, layer.kind->activation); },
      .activation = activation};
}

}  // namespace flotilla
