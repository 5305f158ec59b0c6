// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "models/layers.hpp"

namespace example {

using flotilla::Activation;
using flotilla::LinearLayer;
using flotilla::LinearSpec;
using flotilla::OutputGradient;
using flotilla::Tensor;

/// y = x + fc2(relu(fc1(x))), a block with a way past it.   x, y (N, width).
/// Made of two layers that come along and of sums of tensors. models/layer.hpp says what each function does.
class ResidualLayer : public flotilla::Layer {
 public:
  /// `network` is what a layer takes from, and adds to, the network that it is made for.
  ResidualLayer(const flotilla::Building& network, std::string name, const LinearSpec& spec)
      : Layer(network, std::move(name), {spec.batch, spec.out}),
        operations_(network.device.images()),
        first_(network, this->name() + ".fc1", with(spec, Activation::relu), he, false),
        second_(network, this->name() + ".fc2", with(spec, Activation::identity), he, false) {
    // Memory is asked for here and is there before the first step: a step allocates nothing.
    network.memory.keep(output_shape(), y_);
    network.memory.keep(output_shape(), dy_);
  }

  void bind(const flotilla::Arenas& arenas) override {
    first_.bind(arenas);
    second_.bind(arenas);
  }

  const Tensor& forward(const Tensor& x, const flotilla::PassInfo& info) override {
    hidden_ = &first_.forward(x, info);
    operations_.copy(second_.forward(*hidden_, info), y_);
    operations_.add(x, y_);
    return y_;
  }

  /// dx = dy + what comes back through the two layers, which use up dy: so it is copied first.
  OutputGradient backward(const Tensor& x, OutputGradient dy) override {
    operations_.copy(single(dy), dy_);
    const OutputGradient dx = first_.backward(x, second_.backward(*hidden_, dy));
    operations_.add(dy_, *dx.first);
    return dx;
  }

  /// For flotilla bench step.
  void time_alone(const Tensor& x, flotilla::TimedOperations& operations) override {
    first_.time_alone(x, operations);
    second_.time_alone(*hidden_, operations);
  }

 private:
  static constexpr flotilla::Initializer he{.kind = flotilla::Initializer::Kind::he_normal};
  static LinearSpec with(LinearSpec spec, Activation activation) {
    spec.activation = activation;
    return spec;
  }

  flotilla::ImageOperations& operations_;
  LinearLayer first_;
  LinearLayer second_;
  Tensor y_;
  Tensor dy_;
  const Tensor* hidden_ = nullptr;  ///< What first_ made in the last forward pass
};

}  // namespace example
