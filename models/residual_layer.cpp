// SPDX-License-Identifier: Apache-2.0
#include "models/residual_layer.hpp"

#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

const Tensor& ResidualLayer::Chain::forward(const Tensor& x, const PassInfo& info) {
  const Tensor* y = &x;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    inputs[i] = y;
    y = &layers[i]->forward(*y, info);
  }
  return *y;
}

Tensor& ResidualLayer::Chain::backward(Tensor& dy) {
  OutputGradient gradient{.first = &dy};
  for (std::size_t i = layers.size(); i-- > 0;) gradient = layers[i]->backward(*inputs[i], gradient);
  return *gradient.first;
}

void ResidualLayer::Chain::time_alone(TimedOperations& operations) {
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i]->time_alone(*inputs[i], operations);
}

ResidualLayer::ResidualLayer(const Building& network, std::string name, Parts parts)
    : name_(std::move(name)),
      device_(network.device),
      memory_(network.memory),
      body_{std::move(parts.body)},
      shortcut_{std::move(parts.shortcut)},
      relu_(parts.relu),
      shape_(body_.layers.back()->output_shape()) {
  body_.inputs.resize(body_.layers.size());
  shortcut_.inputs.resize(shortcut_.layers.size());
  memory_.keep(shape_, y_);
  memory_.plan_gradient(shape_, dsum_);
}

void ResidualLayer::bind(const Arenas& arenas) {
  for (const auto* chain : {&body_, &shortcut_})
    for (const auto& layer : chain->layers) layer->bind(arenas);
}

const Tensor& ResidualLayer::forward(const Tensor& x, const PassInfo& info) {
  const Tensor& body = body_.forward(x, info);
  const Tensor& shortcut = shortcut_.forward(x, info);
  const trace::Span span("sum forward");
  if (relu_) {
    device_.images().add_relu(body, shortcut, y_);
  } else {
    device_.images().copy(body, y_);
    device_.images().add(shortcut, y_);
  }
  return y_;
}

OutputGradient ResidualLayer::backward(const Tensor&, OutputGradient dy) {
  require(dy.more == nullptr, name_, " cannot add two gradients");
  Tensor& dsum = memory_.take(dsum_);
  {
    const trace::Span span("sum backward");
    if (relu_) device_.images().add_relu_backward(y_, *dy.first, *dy.first);
    device_.images().copy(*dy.first, dsum);
  }
  Tensor& dbody = body_.backward(*dy.first);
  Tensor& dshortcut = shortcut_.backward(dsum);
  device_.images().add(dshortcut, dbody);
  memory_.give_back(dshortcut);
  return {.first = &dbody};
}

void ResidualLayer::time_alone(const Tensor&, TimedOperations& operations) {
  body_.time_alone(operations);
  shortcut_.time_alone(operations);
}

}  // namespace flotilla
