// SPDX-License-Identifier: Apache-2.0
#include "models/network.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

Network::Network(Device& device, const NetworkSpec& spec)
    : device_(device),
      memory_(device, spec.purpose),
      loss_(device.layers().softmax_loss(
          {.batch = spec.input[0], .classes = spec.classes, .label_smoothing = spec.label_smoothing})),
      input_(spec.input, DeviceSpan<float>{}) {
  if (spec.purpose == Purpose::training) memory_.keep({spec.input[0], spec.classes}, dlogits_);
}

void Network::finish() {
  memory_.allocate();
  outputs_.resize(layers_.size());
}

void Network::bind(const Arenas& arenas) {
  require(static_cast<std::int64_t>(arenas.parameters.size()) == layout().size(), "a network of ",
          layout().size(), " floats cannot be bound to an arena of ", arenas.parameters.size());
  require(static_cast<std::int64_t>(arenas.statistics.size()) == statistics_.layout().size(),
          "a network with ", statistics_.layout().size(), " floats of statistics cannot be bound to ",
          arenas.statistics.size());
  for (const auto& layer : layers_) layer->bind(arenas);
}

void Network::stage(const HostBatch& batch) {
  device_.tensors().stage(batch, input_);
}

void Network::forward(const HostBatch& batch, const Targets& targets, const PassInfo& info,
                      DeviceSpan<float> sums) {
  stage(batch);
  const Tensor* x = &input_;
  for (std::size_t i = 0; i < layers_.size(); ++i) outputs_[i] = x = &layers_[i]->forward(*x, info);
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
  for (std::size_t i = 0; i < layers_.size(); ++i) layers_[i]->time_alone(input_of(i), operations);
  // In the order of a step: each finds in the caches what it finds there.
  std::vector<TimedOperation> all = std::move(operations.forward);
  all.push_back({"loss", "loss", 0.0, [this, targets, sums] {
                   loss_forward(targets, sums);
                   backward_loss(targets, 1.0F / static_cast<float>(batch()));
                 }});
  std::move(operations.backward.rbegin(), operations.backward.rend(), std::back_inserter(all));
  return all;
}

std::string Network::first_non_finite() {
  for (std::size_t i = 0; i < layers_.size(); ++i)
    if (!layers_[i]->finite(device_, *outputs_[i])) return std::string(layers_[i]->name());
  return {};
}

}  // namespace flotilla
