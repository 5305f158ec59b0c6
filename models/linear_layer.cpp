// SPDX-License-Identifier: Apache-2.0
#include "models/linear_layer.hpp"

#include "kernels/trace.hpp"

namespace flotilla {

namespace {

template <class T>
DeviceSpan<T> part(DeviceSpan<T> arena, const Slice& slice) {
  if (arena.empty()) return {};
  return arena.subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.size));
}

}  // namespace

LinearLayer::LinearLayer(Device& device, ArenaLayout& layout, std::string name, const LinearSpec& spec,
                         bool first)
    : name_(std::move(name)),
      plan_(device.linear(spec)),
      y_(device.tensor({spec.batch, spec.out})),
      first_(first) {
  weight_slice_ =
      layout[layout.add(name_ + ".weight", {spec.out, spec.in}, ParameterKind::weight, plan_->weight_size())];
  bias_slice_ = layout[layout.add(name_ + ".bias", {spec.out}, ParameterKind::bias)];
  if (!first_) dx_ = device.tensor({spec.batch, spec.in});
}

void LinearLayer::bind(const Arenas& arenas) {
  weights_ = {part<const float>(arenas.parameters, weight_slice_),
              part<const float>(arenas.parameters, bias_slice_)};
  gradients_ = {part(arenas.gradients, weight_slice_), part(arenas.gradients, bias_slice_)};
}

const Tensor& LinearLayer::forward(const Tensor& x, Pass) {
  const trace::Span span("linear forward");
  plan_->forward(x, weights_, y_);
  return y_;
}

Tensor* LinearLayer::backward(const Tensor& x, Tensor& dy) {
  const trace::Span span("linear backward");
  Tensor* dx = first_ ? nullptr : &dx_;
  plan_->backward(x, y_, weights_, dy, gradients_, dx);
  return dx;
}

}  // namespace flotilla
