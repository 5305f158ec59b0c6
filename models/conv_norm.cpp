// SPDX-License-Identifier: Apache-2.0
#include "models/conv_norm.hpp"

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/conv_layer.hpp"

namespace flotilla {

namespace {

void place(ActivationMemory& memory, std::optional<std::size_t> slot, const Shape& shape, Tensor& where) {
  if (slot) {
    memory.share(*slot, shape, where);
  } else {
    memory.keep(shape, where);
  }
}

}  // namespace

ConvNorm::ConvNorm(const Building& network, const ConvNormSpec& spec)
    : name_(spec.convolution),
      memory_(network.memory),
      conv_(network.device.layers().conv2d(spec.conv)),
      after_(spec.after),
      input_gradient_(spec.conv.input_gradient),
      flop_(static_cast<double>(conv_->flops())),
      // The convolution's weight stands before the norm's parameters in the arena.
      weight_slice_(add_conv_weight(network, spec.convolution, spec.conv,
                                    {.kind = Initializer::Kind::he_normal_fan_out}, *conv_)),
      norm_name_(spec.norm),
      norm_(network, spec.norm,
            {.input = conv_->output_shape(), .after = spec.after, .accumulate = spec.conv.accumulate},
            spec.exchange),
      shape_(conv_->output_shape()) {
  place(memory_, spec.places.convolved, shape_, convolved_);
  place(memory_, spec.places.normalised, shape_, normalised_);
  memory_.plan_gradient(shape_, dconvolved_);
  if (input_gradient_) memory_.plan_gradient(spec.conv.input, dx_);
}

void ConvNorm::bind(const Arenas& arenas) {
  weights_ = weights_of(arenas, weight_slice_, nullptr);
  gradients_ = {part_of(arenas.gradients, weight_slice_), {}};
  norm_.bind(arenas);
}

const Tensor& ConvNorm::forward(const Tensor& x, const Tensor* residual, const PassInfo& info) {
  {
    const trace::Span span("convolution forward");
    conv_->forward(x, weights_, convolved_);
  }
  const trace::Span span("batch norm forward");
  norm_.forward(convolved_, residual, normalised_, info.pass);
  return normalised_;
}

const Tensor& ConvNorm::replay(const Tensor& x, bool normalise) {
  const trace::Span span("recompute");
  conv_->forward(x, weights_, convolved_);
  if (normalise) norm_.replay(convolved_, nullptr, normalised_);
  return normalised_;
}

Tensor* ConvNorm::backward(const Tensor& x, OutputGradient dy, Tensor** residual) {
  const bool adds = after_ == AfterNorm::add_relu;
  require(adds || dy.more == nullptr, name_, " cannot add two gradients");
  // In place, but where dy is also the gradient of the residual.
  Tensor& dz = adds ? memory_.take(dconvolved_) : *dy.first;
  {
    const trace::Span span("batch norm backward");
    norm_.backward(convolved_, normalised_, *dy.first, dy.more, dz, adds ? dy.first : nullptr);
  }
  if (adds) *residual = dy.first;
  if (dy.more != nullptr) memory_.give_back(*dy.more);
  {
    const trace::Span span("convolution backward weights");
    conv_->backward_weights(x, dz, gradients_);
  }
  Tensor* dx = nullptr;
  if (input_gradient_) {
    const trace::Span span("convolution backward data");
    dx = &memory_.take(dx_);
    conv_->backward_data(dz, weights_, *dx);
  }
  memory_.give_back(dz);
  return dx;
}

void ConvNorm::time_alone(const Tensor& x, const Tensor* residual, TimedOperations& operations) {
  const auto dz = [this]() -> Tensor& { return ActivationMemory::view(dconvolved_, 0); };
  const auto spare = [this]() -> Tensor& { return ActivationMemory::view(dconvolved_, 1); };
  const auto more = [this]() -> Tensor& { return ActivationMemory::view(dconvolved_, 2); };
  const bool adds = after_ == AfterNorm::add_relu;
  operations.forward.push_back({name_ + " forward", "convolution forward", flop_,
                                [this, &x] { conv_->forward(x, weights_, convolved_); }});
  operations.forward.push_back({norm_name_ + " forward", "batch norm forward", 0.0, [this, residual] {
                                  norm_.forward(convolved_, residual, normalised_, Pass::training);
                                }});
  if (input_gradient_)
    operations.backward.push_back({name_ + " backward data", "convolution backward data", flop_, [this, dz] {
                                     conv_->backward_data(dz(), weights_, ActivationMemory::view(dx_, 1));
                                   }});
  operations.backward.push_back({name_ + " backward weights", "convolution backward weights", flop_,
                                 [this, &x, dz] { conv_->backward_weights(x, dz(), gradients_); }});
  operations.backward.push_back({norm_name_ + " backward", "batch norm backward", 0.0, [=, this] {
                                   if (adds) {
                                     norm_.backward(convolved_, normalised_, spare(), &more(), dz(),
                                                    &spare());
                                   } else {
                                     norm_.backward(convolved_, normalised_, dz(), nullptr, dz(), nullptr);
                                   }
                                 }});
}

}  // namespace flotilla
