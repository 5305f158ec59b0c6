// SPDX-License-Identifier: Apache-2.0
#include "models/stem_layer.hpp"

#include "kernels/trace.hpp"
#include "models/resnet_slots.hpp"

namespace flotilla {

namespace {

ConvNormPlaces places_of(const Building& network, const StemSpec& spec) {
  if (network.memory.purpose() == Purpose::inference)
    return {slots::inference_shortcut, slots::inference_shortcut};
  if (spec.recompute) return {slots::shortcut, slots::recomputed_last};
  return {};
}

}  // namespace

StemLayer::StemLayer(const Building& network, const StemSpec& spec)
    : device_(network.device),
      memory_(network.memory),
      recompute_(spec.recompute),
      unit_(network, {.convolution = "conv1",
                      .norm = "bn1",
                      .conv = {.input = spec.input,
                               .out_channels = 64,
                               .kernel = 7,
                               .stride = 2,
                               .padding = 3,
                               .accumulate = spec.accumulate,
                               .input_gradient = false},
                      .after = AfterNorm::relu,
                      .places = places_of(network, spec),
                      .exchange = spec.exchange}),
      pool_(device_.layers().pool2d(
          {.input = unit_.output_shape(), .kind = Pooling::max, .kernel = 3, .stride = 2, .padding = 1})),
      shape_(pool_->output_shape()) {
  if (memory_.purpose() == Purpose::inference) {
    memory_.share(slots::inference_output + 1, shape_, y_);  // the first block's output goes to the other one
  } else {
    memory_.keep(shape_, y_);
  }
  memory_.plan_gradient(unit_.output_shape(), dunit_);
  memory_.plan_gradient(shape_, dy_);
  if (recompute_) memory_.note_recomputed(unit_.output_shape(), 2);
}

const Tensor& StemLayer::forward(const Tensor& x, const PassInfo& info) {
  const Tensor& unit = unit_.forward(x, nullptr, info);
  const trace::Span span("pooling forward");
  pool_->forward(unit, y_);
  return y_;
}

OutputGradient StemLayer::backward(const Tensor& x, OutputGradient dy) {
  if (dy.more != nullptr) {
    device_.images().add(*dy.more, *dy.first);
    memory_.give_back(*dy.more);
  }
  if (recompute_) unit_.replay(x, true);
  Tensor& dunit = memory_.take(dunit_);
  {
    const trace::Span span("pooling backward");
    pool_->backward(*dy.first, dunit);
  }
  memory_.give_back(*dy.first);
  unit_.backward(x, {.first = &dunit}, nullptr);
  return {};
}

void StemLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  unit_.time_alone(x, nullptr, operations);
  operations.forward.push_back(
      {"maxpool forward", "pooling forward", 0.0, [this] { pool_->forward(unit_.output(), y_); }});
  operations.backward.push_back(
      {"maxpool backward", "pooling backward", 0.0,
       [this] { pool_->backward(ActivationMemory::view(dy_, 0), ActivationMemory::view(dunit_, 1)); }});
  operations.backward.push_back(
      {"sum of two gradients", "sum", 0.0,
       [this] { device_.images().add(ActivationMemory::view(dy_, 1), ActivationMemory::view(dy_, 0)); }});
}

}  // namespace flotilla
