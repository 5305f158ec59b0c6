// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/graph_builder.hpp"
#include "models/layer_kind.hpp"
#include "models/network.hpp"
#include "models/worker_exchange.hpp"

namespace flotilla {

/// A list of layers as its author wrote it.
struct LayerList {
  std::vector<ListedLayer> layers;
  std::vector<std::string> places{};  ///< Of each layer, for messages: "deck.toml:4:3"; empty: unknown
  std::int64_t outputs = 0;           ///< Of the model
  bool has_classes = true;
};

/// A sample as layers take it: one of two sizes is an image of one channel, (1,H,W).
Shape layer_input(const Shape& sample);

/// The layers with names and shapes for samples of this shape.
/// @throws UserError naming the layer that does not fit what comes before or behind it, and its place
std::vector<PlannedLayer> plan_layers(const LayerList& list, const Shape& sample);

/// How a network is made of a plan.
struct LayerUse {
  std::int64_t batch = 0;
  float label_smoothing = 0.0F;
  std::optional<OutputLoss> loss{};  ///< As NetworkSpec has it
  Purpose purpose = Purpose::training;
  bool accumulate = false;  ///< backward adds to the gradients (micro-steps)
  WorkerExchange* exchange =
      nullptr;                ///< Null: batch norm of each worker's own batch; must outlive the network
  Initializer initializer{};  ///< Of weights; biases are zero
  std::uint64_t seed = 0;     ///< Of dropout
};

/// The network of a plan. Tensors are named as torch.nn.Sequential's of these layers: "0.weight".
/// @throws UserError if a batch norm would get a single value per channel
std::unique_ptr<Network> make_layer_network(Device& device, const std::vector<PlannedLayer>& plan,
                                            const LayerUse& use);

/// Appends the layers of a plan. @param x the input of the first one: samples, the batch first
/// @returns the name of the logits
std::string add_layers(GraphBuilder& graph, const std::string& x, const std::vector<PlannedLayer>& plan);

/// Makes the layers of a plan one after another. Functions that have a fused form are made with the layer
/// before them: an activation with linear, ReLU with batch_norm and with the end of a residual.
class LayerBuilder {
 public:
  LayerBuilder(Network& network, const std::vector<PlannedLayer>& plan, const LayerUse& use)
      : network_(network), building_(network.building()), plan_(plan), use_(use) {}
  void build();

  // For LayerKind::make.
  const Building& building() const { return building_; }
  const LayerUse& use() const { return use_; }
  /// Whether the layer at hand takes the batch, and needs no gradient of its input.
  bool is_first() const { return network_.layers().empty() && !in_residual_; }
  /// Whether the next layer is this activation, which then is made with the layer at hand.
  bool takes(Activation activation);
  void append(std::unique_ptr<Layer> layer);  ///< In front of the layer at hand
  Shape batch_of(const Shape& sample) const;
  /// The order of the values of a flattened image, for the next linear layer; empty: plain.
  std::vector<std::int64_t>& order() { return order_; }
  std::uint32_t next_dropout() { return dropouts_++; }
  void begin_residual() { in_residual_ = true; }
  std::vector<std::unique_ptr<Layer>> end_residual();  ///< The layers since begin_residual()

 private:
  Network& network_;
  Building building_;
  const std::vector<PlannedLayer>& plan_;
  const LayerUse& use_;
  std::size_t at_ = 0;
  bool in_residual_ = false;
  std::vector<std::unique_ptr<Layer>> body_;  ///< Of the residual at hand
  std::vector<std::int64_t> order_;
  std::uint32_t dropouts_ = 0;
};

/// A batch norm of images (N,C,H,W) or rows (N,C), with ReLU behind it where `relu` says so.
/// @throws UserError if it would get a single value per channel
std::unique_ptr<Layer> make_batch_norm(const LayerBuilder& builder, const std::string& name,
                                       const Shape& input, bool relu);

/// Appends the operators of a plan's layers to an ONNX graph one after another.
class GraphWalk {
 public:
  GraphWalk(GraphBuilder& graph, const std::vector<PlannedLayer>& plan) : graph_(graph), plan_(plan) {}
  std::string walk(std::string x);

  // For LayerKind::graph.
  GraphBuilder& graph() { return graph_; }
  /// The name of the batch norm that is the next layer, which then belongs to the layer at hand; empty: none.
  std::string take_batch_norm();
  std::string& shortcut() { return shortcut_; }  ///< The input of the residual at hand

 private:
  GraphBuilder& graph_;
  const std::vector<PlannedLayer>& plan_;
  std::size_t at_ = 0;
  std::string shortcut_;
};

}  // namespace flotilla
