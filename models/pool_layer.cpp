// SPDX-License-Identifier: Apache-2.0
#include "models/pool_layer.hpp"

#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

PoolLayer::PoolLayer(const Building& network, std::string name, const Pool2dSpec& spec)
    : name_(std::move(name)),
      memory_(network.memory),
      offset_(network.parameters.layout().size()),
      plan_(network.device.layers().pool2d(spec)),
      shape_(plan_->output_shape()) {
  memory_.keep(shape_, pooled_);
  if (spec.kind == Pooling::global_average) {
    shape_ = {shape_[0], shape_[1]};
    rows_ = Tensor(shape_, pooled_.span());
  }
  memory_.plan_gradient(spec.input, dx_);
}

const Tensor& PoolLayer::forward(const Tensor& x, const PassInfo&) {
  const trace::Span span("pooling forward");
  plan_->forward(x, pooled_);
  return makes_rows() ? rows_ : pooled_;
}

OutputGradient PoolLayer::backward(const Tensor&, OutputGradient dy) {
  const trace::Span span("pooling backward");
  require(dy.more == nullptr, name_, " cannot add two gradients");
  Tensor& dx = memory_.take(dx_);
  if (makes_rows())
    plan_->backward(Tensor(pooled_.shape(), dy.first->span()), dx);
  else
    plan_->backward(*dy.first, dx);
  memory_.give_back(*dy.first);
  return {.first = &dx};
}

void PoolLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  operations.forward.push_back(
      {name_ + " forward", "pooling forward", 0.0, [this, &x] { plan_->forward(x, pooled_); }});
  operations.backward.push_back({name_ + " backward", "pooling backward", 0.0,
                                 [this] { plan_->backward(pooled_, ActivationMemory::view(dx_, 0)); }});
}

}  // namespace flotilla
