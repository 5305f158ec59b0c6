// SPDX-License-Identifier: Apache-2.0
#include "models/residual_block.hpp"

#include "kernels/error.hpp"
#include "models/resnet_slots.hpp"

namespace flotilla {

namespace {

/// Where the tensors of unit `unit` of `units` lie.
ConvNormPlaces places_of(const Building& network, const ResidualBlockSpec& spec, std::size_t unit,
                         std::size_t units) {
  const bool last = unit + 1 == units;
  if (network.memory.purpose() == Purpose::inference) {
    const std::size_t slot = last ? spec.index % 2 : slots::inference_inner + unit;
    return {slot, slot};
  }
  if (!spec.recompute) return {};
  const std::size_t slot = slots::recomputed_inner + 2 * unit;
  if (last) return {slots::recomputed_last, std::nullopt};
  return {slot, slot + 1};
}

ConvNormPlaces places_of_shortcut(const Building& network, const ResidualBlockSpec& spec) {
  if (network.memory.purpose() == Purpose::inference)
    return {slots::inference_shortcut, slots::inference_shortcut};
  if (spec.recompute) return {slots::shortcut, slots::shortcut};
  return {std::nullopt, slots::shortcut};  // nothing reads it after the sum
}

}  // namespace

ResidualBlock::ResidualBlock(const Building& network, const ResidualBlockSpec& spec)
    : name_(spec.name), memory_(network.memory), recompute_(spec.recompute) {
  struct Unit {
    std::int64_t channels, kernel, stride;
  };
  const std::vector<Unit> units =
      spec.bottleneck ? std::vector<Unit>{{spec.width, 1, 1}, {spec.width, 3, spec.stride}, {spec.out, 1, 1}}
                      : std::vector<Unit>{{spec.width, 3, spec.stride}, {spec.out, 3, 1}};
  const auto conv = [&](const Shape& input, const Unit& unit) {
    return Conv2dSpec{.input = input,
                      .out_channels = unit.channels,
                      .kernel = unit.kernel,
                      .stride = unit.stride,
                      .padding = unit.kernel / 2,
                      .accumulate = spec.accumulate};
  };
  Shape shape = spec.input;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const bool last = i + 1 == units.size();
    main_.push_back(std::make_unique<ConvNorm>(
        network, ConvNormSpec{.convolution = cat(name_, ".conv", i + 1),
                              .norm = cat(name_, ".bn", i + 1),
                              .conv = conv(shape, units[i]),
                              .after = last ? AfterNorm::add_relu : AfterNorm::relu,
                              .places = places_of(network, spec, i, units.size()),
                              .exchange = spec.exchange}));
    shape = main_.back()->output_shape();
    if (recompute_) memory_.note_recomputed(shape, last ? 1 : 2);
  }
  activations_.resize(main_.size());
  if (shape == spec.input) return;
  shortcut_ =
      std::make_unique<ConvNorm>(network, ConvNormSpec{.convolution = name_ + ".downsample.0",
                                                       .norm = name_ + ".downsample.1",
                                                       .conv = conv(spec.input, {spec.out, 1, spec.stride}),
                                                       .after = AfterNorm::nothing,
                                                       .places = places_of_shortcut(network, spec),
                                                       .exchange = spec.exchange});
  memory_.note_shared_anyway(shape);
  if (recompute_) memory_.note_recomputed(shape, 1);
}

void ResidualBlock::bind(const Arenas& arenas) {
  for (const auto& unit : main_) unit->bind(arenas);
  if (shortcut_) shortcut_->bind(arenas);
}

const Tensor& ResidualBlock::forward(const Tensor& x, const PassInfo& info) {
  const Tensor* residual = shortcut_ ? &shortcut_->forward(x, nullptr, info) : &x;
  const Tensor* y = &x;
  for (std::size_t i = 0; i < main_.size(); ++i) {
    activations_[i] = y;
    y = &main_[i]->forward(*y, i + 1 == main_.size() ? residual : nullptr, info);
  }
  return *y;
}

OutputGradient ResidualBlock::backward(const Tensor& x, OutputGradient dy) {
  if (recompute_)
    for (std::size_t i = 0; i < main_.size(); ++i) main_[i]->replay(*activations_[i], i + 1 < main_.size());
  Tensor* dresidual = nullptr;
  for (std::size_t i = main_.size(); i-- > 0;)
    dy = {.first = main_[i]->backward(*activations_[i], dy, i + 1 == main_.size() ? &dresidual : nullptr)};
  if (shortcut_) {
    if (recompute_) shortcut_->replay(x, false);
    dresidual = shortcut_->backward(x, {.first = dresidual}, nullptr);
  }
  return {.first = dy.first, .more = dresidual};
}

void ResidualBlock::time_alone(const Tensor& x, TimedOperations& operations) {
  if (shortcut_) shortcut_->time_alone(x, nullptr, operations);
  for (std::size_t i = 0; i < main_.size(); ++i)
    main_[i]->time_alone(*activations_[i], i + 1 == main_.size() ? &main_.back()->output() : nullptr,
                         operations);
}

}  // namespace flotilla
