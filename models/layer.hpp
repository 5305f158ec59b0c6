// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.hpp"
#include "models/activation_memory.hpp"
#include "models/arena.hpp"

namespace flotilla {

/// μ of running ← μ · running + (1 − μ) · batch, of all batch norms (docs/fleet.md, "Synchronous training";
/// torch's momentum is 1 − μ).
inline constexpr float statistics_momentum = 0.9F;

/// μᵏ: the factor of the running statistics over k micro-steps, whose statistics add up.
inline float statistics_decay(std::int64_t micro_steps) {
  float decay = 1.0F;
  for (std::int64_t i = 0; i < micro_steps; ++i) decay *= statistics_momentum;
  return decay;
}

/// replay computes the outputs of the last training pass again, and changes nothing else.
enum class Pass { training, inference, replay };

/// The kind and number of a forward pass.
struct PassInfo {
  PassInfo(Pass kind) : pass(kind) {}  // NOLINT: most layers need the pass only
  PassInfo(Pass kind, std::uint64_t number) : pass(kind), draw(number) {}
  Pass pass;
  std::uint64_t draw = 0;  ///< Number of the training pass, unique over all workers: selects the dropout mask
};

/// The flat arrays that a network computes with; sizes are those of the layouts.
struct Arenas {
  DeviceSpan<float> parameters;
  DeviceSpan<float> gradients;  ///< Empty: inference only.
  DeviceSpan<float>
      statistics;  ///< Running statistics (batch norm), read by inference; empty if there are none.
  /// Laid out as statistics: s ← μ s + (1 − μ) · this batch's, μ = statistics_momentum, in each
  /// training pass. The strategy zeroes it before a step and folds it into the running ones afterwards.
  DeviceSpan<float> step_statistics;
  /// Offsets of statistics that training passes use and leave alone, of a batch norm both; null: none.
  const std::set<std::int64_t>* fixed_statistics = nullptr;
  GivenHalfSpan halves = {};  ///< Halves of the network's parameters; empty: the device's layers read none.
};

/// The weights of a layer with these slices of the parameters. @param bias null: it has none
inline Weights weights_of(const Arenas& arenas, const Slice& weight, const Slice* bias) {
  Weights weights{.weight = part_of<const float>(arenas.parameters, weight),
                  .bias = {},
                  .half_weight = part_of(arenas.halves, weight)};
  if (bias == nullptr) return weights;
  weights.bias = part_of<const float>(arenas.parameters, *bias);
  weights.half_bias = part_of(arenas.halves, *bias);
  return weights;
}

/// The gradient of a layer's output: first + more. The gradient of a residual block's input has two parts,
/// which the previous block adds in another pass.
struct OutputGradient {
  Tensor* first = nullptr;
  Tensor* more = nullptr;  ///< Null: none
};

/// Communication of layers with other workers, for synchronised batch norm. Implemented in src/strategy, so
/// that models do not depend on MPI.
class WorkerExchange {
 public:
  virtual ~WorkerExchange() = default;
  virtual int workers() const = 0;
  /// Makes room for all_reduce() of `count` values. To be called before that, not in a step.
  virtual void reserve(std::size_t count) = 0;
  /// Collective. values[i] ← Σ over workers of values[i], for work that is queued on the device next. The
  /// same bits on all workers, and in every run of as many.
  virtual void all_reduce(DeviceSpan<double> values) = 0;
};

/// An operation of a training step that a benchmark runs alone, on the step's own buffers.
struct TimedOperation {
  std::string name;  ///< "layer1.0.conv1 forward"
  std::string kind;  ///< "convolution forward"
  double flop = 0.0;
  std::function<void()> run;
};

/// The operations of a network in the order of its layers; a step runs those of backward in reverse.
struct TimedOperations {
  std::vector<TimedOperation> forward;
  std::vector<TimedOperation> backward;
};

/// A slot of ActivationMemory::share that holds a layer's output instead of memory of its own.
struct SharedOutput {
  std::size_t slot = 0;
  bool recomputed = false;  ///< Backward computes the output again; without recomputation it would be kept
};

/// The parts of a network that the constructor of a layer uses.
struct Building {
  Device& device;
  TensorSet& parameters;
  TensorSet& statistics;
  ActivationMemory& memory;
  std::optional<SharedOutput> shared{};  ///< The output of the layer to be made; empty: it is kept

  /// Memory for the output of a layer that may lie in a shared slot.
  void place(const Shape& shape, Tensor& output) const;
};

/// One operation of a network with its parameters, activations and plans, for one batch size. It adds its
/// tensors to the network's when it is made, in forward order, and computes with the arenas of the last
/// bind().
class Layer {
 public:
  /// @param name the start of its tensors' names: "fc1"  @param output the shape of what forward() returns
  Layer(const Building& network, std::string name, const Shape& output)
      : Layer(std::move(name), output, network.parameters.layout().size()) {}
  /// For a layer made of others. @param first_offset that of the one among them that was made first
  Layer(std::string name, const Shape& output, std::int64_t first_offset)
      : name_(std::move(name)), output_shape_(output), first_offset_(first_offset) {}
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer() = default;

  const std::string& name() const { return name_; }
  const Shape& output_shape() const { return output_shape_; }
  /// Offset of the layer's first parameter in the arena; without parameters, of the next layer's.
  std::int64_t first_offset() const { return first_offset_; }

  /// To be overridden by layers with parameters or statistics.
  virtual void bind(const Arenas& /*arenas*/) {}
  /// The layout in which a network's first layer takes its batch; null: the device's usual one.
  virtual std::shared_ptr<const Layout> batch_layout() const { return nullptr; }

  /// The result is owned by the layer.
  virtual const Tensor& forward(const Tensor& x, const PassInfo& info) = 0;
  /// x is the input of forward. dy is scratch afterwards. Writes or adds the gradients of its parameters;
  /// returns the gradient of x, without tensors for a first layer.
  virtual OutputGradient backward(const Tensor& x, OutputGradient dy) = 0;
  /// Appends the operations of forward and backward, to be timed alone after a training step.
  virtual void time_alone(const Tensor& x, TimedOperations& operations) = 0;

  /// Whether all values of the last training pass are finite; `y` is its result.
  virtual bool finite(Device& device, const Tensor& y) const { return device.tensors().all_finite(y); }
  /// Whether backward() takes a gradient in two parts.
  virtual bool adds_gradients() const { return false; }

 protected:
  /// The only part of a gradient. @throws InternalError where there are two
  Tensor& single(const OutputGradient& dy) const;

 private:
  std::string name_;
  Shape output_shape_;
  std::int64_t first_offset_;
};

using LayerRow = std::vector<std::unique_ptr<Layer>>;

/// Layers one after another, and the tensors between them in the last forward pass.
class Chain {
 public:
  Chain() = default;
  explicit Chain(LayerRow layers) : layers_(std::move(layers)), values_(layers_.size() + 1) {}
  void append(std::unique_ptr<Layer> layer);
  const LayerRow& layers() const { return layers_; }
  bool empty() const { return layers_.empty(); }
  const Tensor& input(std::size_t layer) const { return *values_[layer]; }
  const Tensor& output(std::size_t layer) const { return *values_[layer + 1]; }
  const Tensor& output() const { return *values_.back(); }

  void bind(const Arenas& arenas) const;
  const Tensor& forward(const Tensor& x, const PassInfo& info);  ///< x itself without layers
  void replay(std::size_t count);  ///< Computes the outputs of the first `count` layers again
  OutputGradient backward(OutputGradient dy) const;
  void time_alone(TimedOperations& operations) const;

 private:
  LayerRow layers_;
  std::vector<const Tensor*> values_{nullptr};  ///< The input of the first layer and the output of each
};

}  // namespace flotilla
