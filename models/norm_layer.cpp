// SPDX-License-Identifier: Apache-2.0
#include "models/norm_layer.hpp"

#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

namespace {

/// Rows are images of one pixel, which lies alike in every layout.
Shape image_of(const Shape& shape) {
  return shape.rank() == 4 ? shape : Shape{shape[0], shape[1], 1, 1};
}

}  // namespace

NormLayer::NormLayer(const Building& network, std::string name, const Spec& spec)
    : name_(std::move(name)),
      shape_(spec.input),
      offset_(network.parameters.layout().size()),
      norm_(network, name_,
            {.input = image_of(shape_),
             .after = spec.relu ? AfterNorm::relu : AfterNorm::nothing,
             .accumulate = spec.accumulate},
            spec.exchange) {
  network.memory.keep(shape_, y_);
  network.memory.plan_gradient(shape_, dy_);
}

void NormLayer::normalise(const Tensor& x, Pass pass) {
  const trace::Span span("batch norm forward");
  if (shape_.rank() == 4) return norm_.forward(x, nullptr, y_, pass);
  Tensor y = plain_view(y_, image_of(shape_));
  norm_.forward(plain_view(x, image_of(shape_)), nullptr, y, pass);
}

void NormLayer::differentiate(const Tensor& x, Tensor& dy) {
  const trace::Span span("batch norm backward");
  if (shape_.rank() == 4) return norm_.backward(x, y_, dy, nullptr, dy, nullptr);
  Tensor gradient = plain_view(dy, image_of(shape_));
  norm_.backward(plain_view(x, image_of(shape_)), plain_view(y_, image_of(shape_)), gradient, nullptr,
                 gradient, nullptr);
}

const Tensor& NormLayer::forward(const Tensor& x, const PassInfo& info) {
  normalise(x, info.pass);
  return y_;
}

OutputGradient NormLayer::backward(const Tensor& x, OutputGradient dy) {
  require(dy.more == nullptr, name_, " cannot add two gradients");
  differentiate(x, *dy.first);
  return dy;
}

void NormLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  operations.forward.push_back(
      {name_ + " forward", "batch norm forward", 0.0, [this, &x] { normalise(x, Pass::training); }});
  operations.backward.push_back({name_ + " backward", "batch norm backward", 0.0,
                                 [this, &x] { differentiate(x, ActivationMemory::view(dy_, 0)); }});
}

}  // namespace flotilla
