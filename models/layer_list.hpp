// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/layer.hpp"
#include "models/layer_kind.hpp"
#include "models/network.hpp"
#include "models/onnx_graph.hpp"

namespace flotilla {

/// A network as a list of layers.
struct LayerList {
  std::vector<ListedLayer> layers;
  std::vector<std::string> places{};  ///< Place of each layer, for messages: "deck.toml:4:3"; empty: unknown
  std::int64_t outputs = 0;           ///< Outputs of the model
  bool has_classes = true;
};

/// A sample as layers take it: one of two sizes is an image of one channel, (1,H,W).
Shape layer_input(const Shape& sample);

/// The layers with names and shapes for samples of this shape. A projection of a residual becomes the layers
/// of its shortcut.
/// @throws UserError naming the layer that does not fit what comes before or after it, and its place
std::vector<PlannedLayer> plan_layers(const LayerList& list, const Shape& sample);

/// Options for making a network from a plan.
struct LayerUse {
  std::int64_t batch = 0;
  float label_smoothing = 0.0F;
  std::vector<float> class_weights{};  ///< As NetworkSpec has them
  std::optional<OutputLoss> loss{};    ///< As NetworkSpec has it
  Purpose purpose = Purpose::training;
  bool accumulate = false;      ///< backward adds to the gradients (micro-steps)
  bool input_gradient = false;  ///< backward leaves Network::input_gradient()
  WorkerExchange* exchange =
      nullptr;                ///< Null: batch norm of each worker's own batch; must outlive the network
  Initializer initializer{};  ///< Initializer of weights that have none of their own; biases are zero
  std::uint64_t seed = 0;     ///< Seed of dropout
};

/// The network of a plan. Tensors are named after the layers: "0.weight".
/// @throws UserError if a batch norm would get a single value per channel
std::unique_ptr<Network> make_layer_network(Device& device, const std::vector<PlannedLayer>& plan,
                                            const LayerUse& use);

/// Reads a plan from its first layer to its last.
class PlanReader {
 public:
  explicit PlanReader(const std::vector<PlannedLayer>& plan) : plan_(plan) {}
  const PlannedLayer& take() { return plan_[next_++]; }
  bool at(const LayerKind& kind) const { return has_next() && plan_[next_].kind == &kind; }
  /// Takes the next layer if it is of that kind. @returns the layer; null: it is none
  const PlannedLayer* take_if(const LayerKind& kind) { return at(kind) ? &take() : nullptr; }
  bool take_if(Activation activation);
  /// Whether the layers of a body, shortcut or network end here, `ahead` layers further on.
  bool at_end(std::size_t ahead = 0) const;

 private:
  bool has_next() const { return next_ < plan_.size(); }

  const std::vector<PlannedLayer>& plan_;
  std::size_t next_ = 0;
};

/// Makes the layers of a plan one after another. Functions that have a fused form are made with the layer
/// before them: an activation with linear, ReLU with batch_norm and with the end of a residual.
class LayerBuilder {
 public:
  LayerBuilder(Network& network, const std::vector<PlannedLayer>& plan, const LayerUse& use)
      : network_(network), plan_(plan), use_(use) {}
  void build();

  // For LayerKind::make.
  PlanReader& plan() { return plan_; }  ///< Positioned after the layer that is being built
  const LayerUse& use() const { return use_; }
  Building building(const PlannedLayer& layer) const;
  const Initializer& initializer(const PlannedLayer& layer) const;
  Shape batch_of(const Shape& sample) const;
  /// Whether the layer takes the batch.
  bool is_first() const { return first_; }
  void begin_residual() { first_ = false; }  ///< The sum needs the gradient of its input
  bool needs_no_input_gradient() const { return first_ && !use_.input_gradient; }
  /// The layers up to where at_end() says so, without that; with `but_norm` also without a batch norm there.
  LayerRow row(bool but_norm = false);
  void append(std::unique_ptr<Layer> layer);  ///< Inserts a layer before the one that is being built
  /// Whether the layer in front takes a gradient in two parts.
  bool may_split_gradient() const { return !row_->empty() && row_->back()->adds_gradients(); }
  /// The order of the values of a flattened image, for the next linear layer; empty: plain.
  std::vector<std::int64_t>& order() { return order_; }
  std::uint32_t next_dropout() { return dropouts_++; }

 private:
  Network& network_;
  PlanReader plan_;
  const LayerUse& use_;
  LayerRow* row_ = nullptr;  ///< The layers of the innermost row(), so far
  bool first_ = true;
  std::vector<std::int64_t> order_;
  std::uint32_t dropouts_ = 0;
};

class BatchNormLayer;

/// The batch norm of a plan. @throws UserError if it would get a single value per channel
std::unique_ptr<BatchNormLayer> make_batch_norm(const LayerBuilder& builder, const PlannedLayer& layer,
                                                AfterNorm after);

/// The attributes of an operator over windows of images.
OnnxAttributes window_attributes(const LayerArguments& layer);

/// Appends the operators of a plan's layers to an ONNX graph one after another.
class GraphWalk {
 public:
  GraphWalk(GraphBuilder& graph, const std::vector<PlannedLayer>& plan) : graph_(graph), plan_(plan) {}
  /// Appends the layers up to where at_end() says so. @param x the input of the first one, the batch first
  /// @returns the name of the last one's output: of a whole plan the logits
  std::string walk(std::string x);

  // For LayerKind::graph.
  GraphBuilder& graph() { return graph_; }
  PlanReader& plan() { return plan_; }
  /// The name of the batch norm that is the next layer and is folded into the layer at hand; empty: none.
  std::string take_batch_norm();

 private:
  GraphBuilder& graph_;
  PlanReader plan_;
};

}  // namespace flotilla
