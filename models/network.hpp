// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "models/half_parameters.hpp"
#include "models/layer.hpp"

namespace flotilla {

struct NetworkSpec {
  Shape input;               ///< Shape of one batch, (N, …)
  std::int64_t classes = 0;  ///< Outputs: those of classes, or the numbers that `loss` compares
  float label_smoothing = 0.0F;
  std::vector<float> class_weights{};  ///< SoftmaxLossSpec::class_weights
  std::optional<OutputLoss> loss{};    ///< Empty: softmax and cross entropy
  Purpose purpose = Purpose::training;
};

/// Layers one after another and a loss, for one batch size. Holds activations and plans; parameters,
/// gradients and statistics lie in arenas that the caller owns. No allocation after the first step.
class Network {
 public:
  Network(Device& device, const NetworkSpec& spec);

  /// The argument of constructors of layers. append() each layer, then finish().
  Building building() { return {device_, parameters_, statistics_, memory_}; }
  void append(std::unique_ptr<Layer> layer) { chain_.append(std::move(layer)); }
  void finish();

  Device& device() const { return device_; }
  const TensorSet& parameters() const { return parameters_; }
  const TensorSet& statistics() const { return statistics_; }  ///< Running statistics; may be empty
  const ArenaLayout& layout() const { return parameters_.layout(); }
  const LayerRow& layers() const { return chain_.layers(); }
  std::int64_t batch() const { return input_.shape()[0]; }
  std::int64_t input_size() const { return input_.shape().size(); }              ///< Values of a batch
  const std::optional<OutputLoss>& output_loss() const { return output_loss_; }  ///< NetworkSpec::loss
  const ActivationMemory& memory() const { return memory_; }

  void bind(const Arenas& arenas);
  /// Half-precision copies of the bound parameters; null: the device's layers read none.
  HalfParameters* halves() { return halves_ ? &*halves_ : nullptr; }

  /// Excludes parameters from training: their gradients are zero from the next bind() on, and below the first
  /// layer with others none is computed. @param frozen of each slice of layout(), not all
  /// @param needs_input_gradient compute it through frozen layers too
  void freeze(const std::vector<bool>& frozen, bool needs_input_gradient);
  /// Batch norms that normalise with their running statistics in training passes too, from the next bind()
  /// on.
  /// @param fixed of each slice of statistics(): both of a norm or none
  void fix_statistics(const std::vector<bool>& fixed);

  /// Runs a host batch through the network and adds to sums[loss_sums] (device memory).
  void forward(const HostBatch& batch, const Targets& targets, const PassInfo& info, DeviceSpan<float> sums);
  const Tensor& logits() const { return chain_.output(); }
  /// Gradients of scale · (sum of the batch's losses). As layers finish, last first, calls on_ready(begin):
  /// the gradients from `begin` to the end of the arena are final. The last call has begin = 0.
  template <class OnReady>
  void backward(const Targets& targets, DeviceScalar<float> scale, OnReady&& on_ready) {
    OutputGradient dy{.first = &backward_loss(targets, scale)};
    for (std::size_t i = layers().size(); i-- > first_trained_;) {
      dy = layers()[i]->backward(chain_.input(i), dy);
      if (i == 0) keep_input_gradient(dy.first);
      if (i == first_trained_) give_back(dy);
      clear_frozen(i);
      on_ready(i == first_trained_ ? 0 : layers()[i]->first_offset());
    }
  }
  /// The gradient of the input, (N, …), from the last call of on_ready in a backward pass until the next one.
  /// @throws InternalError if the network was not built to compute it.
  const Tensor& input_gradient() const;
  /// The operations of a step but the optimizer, in its order, each to be timed alone after a training step.
  /// `targets` must outlive them.
  std::vector<TimedOperation> operations(const Targets& targets, DeviceSpan<float> sums);
  /// The first layer whose output in the last training pass holds a NaN or an infinity; empty: none.
  std::string first_non_finite();

 private:
  void stage(const HostBatch& batch);
  void loss_forward(const Targets& targets, DeviceSpan<float> sums);
  Tensor& backward_loss(const Targets& targets, DeviceScalar<float> scale);
  void keep_input_gradient(const Tensor* gradient);
  void give_back(const OutputGradient& gradient);
  void clear_frozen(std::size_t layer);

  Device& device_;
  TensorSet parameters_;
  TensorSet statistics_;
  ActivationMemory memory_;
  Chain chain_;
  std::optional<OutputLoss> output_loss_;
  std::unique_ptr<Loss> loss_;
  Tensor input_;
  Tensor dlogits_;
  const Tensor* input_gradient_ = nullptr;
  std::size_t first_trained_ = 0;  ///< The layer at which backward ends
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  std::vector<std::vector<Range>> frozen_;  ///< Ranges of gradients to clear after each layer's backward
  std::set<std::int64_t> fixed_statistics_;
  DeviceSpan<float> gradients_;
  std::optional<HalfParameters> halves_;
};

}  // namespace flotilla
