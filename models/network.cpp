// SPDX-License-Identifier: Apache-2.0
#include "models/network.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

namespace {

/// Glorot & Bengio 2010 (xavier) and He et al. 2015 (gain √2); the original's defaults are Xavier
/// uniform for linear layers and zero biases.
void fill(std::span<float> values, const Network::Parameter& parameter, Random random) {
  const auto in = static_cast<double>(parameter.fan_in);
  const auto out = static_cast<double>(parameter.fan_out);
  const auto uniform = [&](double bound) {
    for (float& value : values) value = static_cast<float>((2.0 * random.uniform() - 1.0) * bound);
  };
  const auto normal = [&](double deviation) {
    for (float& value : values) value = static_cast<float>(random.normal() * deviation);
  };
  using Kind = Initializer::Kind;
  switch (parameter.initializer.kind) {
    case Kind::zeros: std::fill(values.begin(), values.end(), 0.0F); break;
    case Kind::ones: std::fill(values.begin(), values.end(), 1.0F); break;
    case Kind::uniform: uniform(parameter.initializer.scale); break;
    case Kind::normal: normal(parameter.initializer.scale); break;
    case Kind::xavier_uniform: uniform(std::sqrt(6.0 / (in + out))); break;
    case Kind::xavier_normal: normal(std::sqrt(2.0 / (in + out))); break;
    case Kind::he_uniform: uniform(std::sqrt(6.0 / in)); break;
    case Kind::he_normal: normal(std::sqrt(2.0 / in)); break;
  }
}

}  // namespace

Network::Network(Device& device, const Shape& input, std::int64_t classes, float label_smoothing)
    : device_(device),
      loss_(device.softmax_loss({.batch = input[0], .classes = classes, .label_smoothing = label_smoothing})),
      input_(input, DeviceSpan<float>{}),
      dlogits_(device.tensor({input[0], classes})) {}

std::int64_t Network::activation_values() const {
  std::int64_t count = dlogits_.shape().size();
  for (const auto& layer : layers_) count += layer->activation_values();
  return count;
}

void Network::bind(const Arenas& arenas) {
  require(static_cast<std::int64_t>(arenas.parameters.size()) == layout_.size(), "a network of ",
          layout_.size(), " floats cannot be bound to an arena of ", arenas.parameters.size());
  outputs_.resize(layers_.size());
  for (const auto& layer : layers_) layer->bind(arenas);
}

void Network::forward(std::span<float> images, const Targets& targets, Pass pass, DeviceSpan<float> sums) {
  device_.stage(images, input_);
  const Tensor* x = &input_;
  for (std::size_t i = 0; i < layers_.size(); ++i) outputs_[i] = x = &layers_[i]->forward(*x, pass);
  loss_forward(targets, sums);
}

void Network::loss_forward(const Targets& targets, DeviceSpan<float> sums) {
  const trace::Span span("loss forward");
  loss_->forward(logits(), targets, sums);
}

Tensor& Network::backward_loss(const Targets& targets, float scale) {
  const trace::Span span("loss backward");
  loss_->backward(logits(), targets, scale, dlogits_);
  return dlogits_;
}

void Network::initialise(std::uint64_t seed, DeviceSpan<float> arena) {
  std::vector<float> plain;
  for (const Parameter& parameter : parameters_) {
    plain.resize(static_cast<std::size_t>(layout_[parameter.slice].shape.size()));
    fill(plain, parameter, Random(seed, random_weights, parameter.slice));
    import_slice(parameter.slice, plain, arena);
  }
}

const Network::Parameter& Network::parameter_of(std::size_t slice) const {
  for (const Parameter& parameter : parameters_)
    if (parameter.slice == slice) return parameter;
  throw InternalError(cat("slice ", layout_[slice].name, " has no parameter"));
}

void Network::to_plain(std::size_t slice, std::span<const float> stored, std::span<float> plain) const {
  parameter_of(slice).to_plain(stored, plain);
}

void Network::import_slice(std::size_t slice, std::span<const float> plain, DeviceSpan<float> arena) const {
  const Slice& where = layout_[slice];
  const auto stored =
      arena.subspan(static_cast<std::size_t>(where.offset), static_cast<std::size_t>(where.size));
  const auto& from_plain = parameter_of(slice).from_plain;
  if (!from_plain) {
    device_.upload(plain, stored);
  } else {
    std::vector<float> host(stored.size());
    from_plain(plain, host);
    device_.upload(host, stored);
  }
}

}  // namespace flotilla
