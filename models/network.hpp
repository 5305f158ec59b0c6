// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "models/layer.hpp"

namespace flotilla {

/// Layers one after another and a softmax loss, for one batch size. Holds activations and plans; parameters,
/// gradients and statistics lie in arenas that the caller owns. No allocation after the first step.
class Network {
 public:
  /// How one parameter is made, and how it travels between the plain order of files and the arena.
  struct Parameter {
    std::size_t slice = 0;  ///< In layout()
    Initializer initializer;
    std::int64_t fan_in = 0;
    std::int64_t fan_out = 0;
    std::function<void(std::span<const float> plain, std::span<float> stored)>
        from_plain;  ///< Null: plain as it is.
    std::function<void(std::span<const float> stored, std::span<float> plain)> to_plain;
  };

  /// @param input of one batch, (N, …)
  Network(Device& device, const Shape& input, std::int64_t classes, float label_smoothing);

  Device& device() { return device_; }
  ArenaLayout& layout() { return layout_; }  ///< For the builder; afterwards read it.
  const ArenaLayout& layout() const { return layout_; }
  void append(std::unique_ptr<Layer> layer) { layers_.push_back(std::move(layer)); }
  void append(Parameter parameter) { parameters_.push_back(std::move(parameter)); }
  const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }
  std::int64_t batch() const { return input_.shape()[0]; }
  std::int64_t activation_values() const;  ///< Floats of all activations and their gradients.

  void bind(const Arenas& arenas);

  /// Runs a host batch through the network and adds to sums[loss_sums] (device memory).
  void forward(std::span<float> images, const Targets& targets, Pass pass, DeviceSpan<float> sums);
  const Tensor& logits() const { return *outputs_.back(); }
  /// Gradients of scale · (sum of the batch's losses). As layers finish, last first, calls on_ready(begin):
  /// the gradients from `begin` to the end of the arena are final. The last call has begin = 0.
  template <class OnReady>
  void backward(const Targets& targets, float scale, OnReady&& on_ready) {
    Tensor* dy = &backward_loss(targets, scale);
    for (std::size_t i = layers_.size(); i-- > 0;) {
      dy = layers_[i]->backward(input_of(i), *dy);
      on_ready(layers_[i]->first_offset());
    }
  }
  /// The parts of a pass, for benchmarks: the loss, the gradient of the logits, and what layer i got in
  /// forward.
  void loss_forward(const Targets& targets, DeviceSpan<float> sums);
  Tensor& backward_loss(const Targets& targets, float scale);
  const Tensor& input_of(std::size_t layer) const { return layer == 0 ? input_ : *outputs_[layer - 1]; }

  /// Fills an arena with the deck's initial values: a pure function of (seed, tensor), independent of the
  /// device.
  void initialise(std::uint64_t seed, DeviceSpan<float> arena);
  /// Sets one slice of an arena (parameters, or anything of the same layout) from plain values in its logical
  /// shape.
  void import_slice(std::size_t slice, std::span<const float> plain, DeviceSpan<float> arena) const;
  /// Whether a slice is stored as files hold it; where not, the way there, in host memory. Safe beside a
  /// running step.
  bool is_plain(std::size_t slice) const { return !parameter_of(slice).to_plain; }
  void to_plain(std::size_t slice, std::span<const float> stored, std::span<float> plain) const;

 private:
  const Parameter& parameter_of(std::size_t slice) const;

  Device& device_;
  ArenaLayout layout_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Parameter> parameters_;
  std::unique_ptr<SoftmaxLoss> loss_;
  Tensor input_;
  std::vector<const Tensor*> outputs_;  ///< Of each layer, in the last forward pass
  Tensor dlogits_;
};

}  // namespace flotilla
