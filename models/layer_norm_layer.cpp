// SPDX-License-Identifier: Apache-2.0
#include "models/layer_norm_layer.hpp"

#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

LayerNormLayer::LayerNormLayer(const Building& network, std::string name, const LayerNormSpec& spec)
    : name_(std::move(name)),
      plan_(network.device.layers().layer_norm(spec)),
      shape_{spec.rows, spec.columns} {
  const auto add = [&](const char* ending, Initializer::Kind kind) {
    return network.parameters.add({.name = name_ + ending,
                                   .shape = {spec.columns},
                                   .kind = ParameterKind::batch_norm,
                                   .initializer = {.kind = kind}});
  };
  scale_slice_ = add(".weight", Initializer::Kind::ones);
  shift_slice_ = add(".bias", Initializer::Kind::zeros);
  network.memory.keep(shape_, y_);
  network.memory.plan_gradient(shape_, dy_);
}

void LayerNormLayer::bind(const Arenas& arenas) {
  weights_ = {part_of<const float>(arenas.parameters, scale_slice_),
              part_of<const float>(arenas.parameters, shift_slice_)};
  gradients_ = {part_of(arenas.gradients, scale_slice_), part_of(arenas.gradients, shift_slice_)};
}

const Tensor& LayerNormLayer::forward(const Tensor& x, const PassInfo&) {
  const trace::Span span("layer norm forward");
  plan_->forward(x, weights_, y_);
  return y_;
}

OutputGradient LayerNormLayer::backward(const Tensor& x, OutputGradient dy) {
  const trace::Span span("layer norm backward");
  require(dy.more == nullptr, name_, " cannot add two gradients");
  plan_->backward(x, weights_, *dy.first, gradients_, *dy.first);
  return dy;
}

void LayerNormLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  operations.forward.push_back(
      {name_ + " forward", "layer norm forward", 0.0, [this, &x] { plan_->forward(x, weights_, y_); }});
  operations.backward.push_back({name_ + " backward", "layer norm backward", 0.0, [this, &x] {
                                   Tensor& dy = ActivationMemory::view(dy_, 0);
                                   plan_->backward(x, weights_, dy, gradients_, dy);
                                 }});
}

}  // namespace flotilla
