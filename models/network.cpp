// SPDX-License-Identifier: Apache-2.0
#include "models/network.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

namespace {

std::unique_ptr<Loss> make_loss(Layers& layers, const NetworkSpec& spec) {
  if (spec.loss)
    return layers.output_loss({.batch = spec.input[0], .outputs = spec.classes, .function = *spec.loss});
  return layers.softmax_loss({.batch = spec.input[0],
                              .classes = spec.classes,
                              .label_smoothing = spec.label_smoothing,
                              .class_weights = spec.class_weights});
}

}  // namespace

Network::Network(Device& device, const NetworkSpec& spec)
    : device_(device),
      memory_(device, spec.purpose),
      output_loss_(spec.loss),
      loss_(make_loss(device.layers(), spec)),
      input_(spec.input, DeviceSpan<float>{}) {
  if (spec.purpose == Purpose::training) memory_.keep({spec.input[0], spec.classes}, dlogits_);
}

void Network::finish() {
  require(!chain_.empty(), "a network has at least one layer");
  memory_.allocate();
  input_ = {input_.shape(), DeviceSpan<float>{}, layers().front()->batch_layout()};
  if (device_.info().reads_halves) halves_.emplace(device_, static_cast<std::size_t>(layout().size()));
}

void Network::bind(const Arenas& arenas) {
  require(static_cast<std::int64_t>(arenas.parameters.size()) == layout().size(), "a network of ",
          layout().size(), " floats cannot be bound to an arena of ", arenas.parameters.size());
  require(static_cast<std::int64_t>(arenas.statistics.size()) == statistics_.layout().size(),
          "a network with ", statistics_.layout().size(), " floats of statistics cannot be bound to ",
          arenas.statistics.size());
  Arenas bound = arenas;
  bound.fixed_statistics = &fixed_statistics_;
  gradients_ = arenas.gradients;
  if (halves_) {
    halves_->bind(arenas.parameters);
    bound.halves = halves_->values();
  }
  chain_.bind(bound);
}

void Network::freeze(const std::vector<bool>& frozen, bool needs_input_gradient) {
  require(frozen.size() == layout().slices().size(), "a network of ", layout().slices().size(),
          " parameters cannot be frozen by ", frozen.size(), " values");
  const auto layer_of = [&](const Slice& slice) {
    std::size_t layer = layers().size() - 1;
    while (layers()[layer]->first_offset() > slice.offset) --layer;
    return layer;
  };
  const auto trained = std::ranges::find(frozen, false);
  require(trained != frozen.end(), "all parameters of a network are frozen");
  first_trained_ =
      needs_input_gradient ? 0 : layer_of(layout()[static_cast<std::size_t>(trained - frozen.begin())]);
  frozen_.assign(layers().size(), {});
  for (std::size_t i = 0; i < frozen.size(); ++i) {
    if (!frozen[i]) continue;
    const std::int64_t begin = layout()[i].offset;
    const std::int64_t end = i + 1 < frozen.size() ? layout()[i + 1].offset : layout().size();
    auto& ranges = frozen_[std::max(layer_of(layout()[i]), first_trained_)];
    if (!ranges.empty() && ranges.back().end == begin)
      ranges.back().end = end;
    else
      ranges.push_back({begin, end});
  }
}

void Network::fix_statistics(const std::vector<bool>& fixed) {
  fixed_statistics_.clear();
  for (std::size_t i = 0; i < fixed.size(); ++i)
    if (fixed[i]) fixed_statistics_.insert(statistics_.layout()[i].offset);
}

void Network::clear_frozen(std::size_t layer) {
  if (frozen_.empty()) return;
  for (const Range& range : frozen_[layer])
    device_.flat().fill(gradients_.subspan(static_cast<std::size_t>(range.begin),
                                           static_cast<std::size_t>(range.end - range.begin)),
                        0.0F);
}

/// The memory of a gradient that no layer takes any more.
void Network::give_back(const OutputGradient& gradient) {
  if (first_trained_ == 0) return;
  for (const Tensor* part : {gradient.first, gradient.more})
    if (part != nullptr) memory_.give_back(*part);
}

void Network::stage(const HostBatch& batch) {
  device_.tensors().stage(batch, input_);
}

void Network::forward(const HostBatch& batch, const Targets& targets, const PassInfo& info,
                      DeviceSpan<float> sums) {
  stage(batch);
  if (halves_) halves_->prepare();
  chain_.forward(input_, info);
  loss_forward(targets, sums);
}

void Network::loss_forward(const Targets& targets, DeviceSpan<float> sums) {
  const trace::Span span("loss forward");
  loss_->forward(logits(), targets, sums);
}

Tensor& Network::backward_loss(const Targets& targets, DeviceScalar<float> scale) {
  const trace::Span span("loss backward");
  require(memory_.purpose() == Purpose::training, "a network for inference has no backward pass");
  loss_->backward(logits(), targets, scale, dlogits_);
  return dlogits_;
}

void Network::keep_input_gradient(const Tensor* gradient) {
  input_gradient_ = gradient;
  // The next backward pass may take its memory.
  if (gradient != nullptr) memory_.give_back(*gradient);
}

const Tensor& Network::input_gradient() const {
  require(input_gradient_ != nullptr, "no backward pass of this network has left a gradient of its input");
  return *input_gradient_;
}

std::vector<TimedOperation> Network::operations(const Targets& targets, DeviceSpan<float> sums) {
  TimedOperations operations;
  chain_.time_alone(operations);
  // The operations run in the order of a step, so that each finds the caches as in a step.
  std::vector<TimedOperation> all = std::move(operations.forward);
  all.push_back({"loss", "loss", 0.0, [this, targets, sums] {
                   loss_forward(targets, sums);
                   backward_loss(targets, 1.0F / static_cast<float>(batch()));
                 }});
  std::move(operations.backward.rbegin(), operations.backward.rend(), std::back_inserter(all));
  return all;
}

std::string Network::first_non_finite() {
  for (std::size_t i = 0; i < layers().size(); ++i)
    if (!layers()[i]->finite(device_, chain_.output(i))) return layers()[i]->name();
  return {};
}

}  // namespace flotilla
