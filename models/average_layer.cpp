// SPDX-License-Identifier: Apache-2.0
#include "models/average_layer.hpp"

#include "kernels/error.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

AverageLayer::AverageLayer(const Building& network, std::string name, const Shape& input)
    : name_(std::move(name)),
      memory_(network.memory),
      offset_(network.parameters.layout().size()),
      pool_(network.device.layers().pool2d({.input = input, .kind = Pooling::global_average})),
      shape_{input[0], input[1]} {
  memory_.keep(pool_->output_shape(), pooled_);
  y_ = Tensor(shape_, pooled_.span());
  memory_.plan_gradient(input, dx_);
}

const Tensor& AverageLayer::forward(const Tensor& x, const PassInfo&) {
  const trace::Span span("pooling forward");
  pool_->forward(x, pooled_);
  return y_;
}

OutputGradient AverageLayer::backward(const Tensor&, OutputGradient dy) {
  const trace::Span span("pooling backward");
  require(dy.more == nullptr, name_, " cannot add two gradients");
  Tensor& dx = memory_.take(dx_);
  const Tensor dpooled(pool_->output_shape(), dy.first->span());
  pool_->backward(dpooled, dx);
  memory_.give_back(*dy.first);
  return {.first = &dx};
}

void AverageLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  operations.forward.push_back(
      {name_ + " forward", "pooling forward", 0.0, [this, &x] { pool_->forward(x, pooled_); }});
  operations.backward.push_back({name_ + " backward", "pooling backward", 0.0,
                                 [this] { pool_->backward(pooled_, ActivationMemory::view(dx_, 0)); }});
}

}  // namespace flotilla
