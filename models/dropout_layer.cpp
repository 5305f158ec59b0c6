// SPDX-License-Identifier: Apache-2.0
#include "models/dropout_layer.hpp"

#include "kernels/error.hpp"

namespace flotilla {

DropoutLayer::DropoutLayer(const Building& network, std::string name, const DropoutSpec& spec)
    : name_(std::move(name)),
      shape_(spec.input),
      offset_(network.parameters.layout().size()),
      plan_(network.device.layers().dropout(spec)) {
  if (network.memory.purpose() == Purpose::training) network.memory.keep(shape_, y_);
}

const Tensor& DropoutLayer::forward(const Tensor& x, const PassInfo& info) {
  if (info.pass == Pass::inference) return x;
  draw_ = info.draw;
  plan_->forward(draw_, x, y_);
  return y_;
}

OutputGradient DropoutLayer::backward(const Tensor&, OutputGradient dy) {
  require(dy.more == nullptr, name_, " cannot add two gradients");
  plan_->backward(draw_, *dy.first, *dy.first);
  return dy;
}

void DropoutLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  operations.forward.push_back(
      {name_ + " forward", "dropout", 0.0, [this, &x] { plan_->forward(draw_, x, y_); }});
  operations.backward.push_back(
      {name_ + " backward", "dropout", 0.0, [this] { plan_->backward(draw_, y_, y_); }});
}

}  // namespace flotilla
