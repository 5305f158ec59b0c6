// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/layer.hpp"
#include "models/layer_list.hpp"
#include "src/config/config.hpp"
#include "src/config/keys.hpp"

namespace flotilla {

/// The intended use of a deck's network.
struct NetworkUse {
  Shape sample;            ///< Shape of a sample; of click data that of its dense values
  std::int64_t slots = 0;  ///< Slots of click data, otherwise 0
  std::int64_t batch = 0;
  Purpose purpose = Purpose::training;
  bool accumulate = false;             ///< backward adds to the gradients (micro-steps)
  WorkerExchange* exchange = nullptr;  ///< Null: batch norm of each worker's own batch; must outlive it
};

/// Builds the network that a deck describes, for batches of `use`, with config.model.output_width() outputs,
/// output_loss_of(config.model) and config.train.label_smoothing in its loss. @throws UserError if it cannot
/// take such samples.
using NetworkMaker =
    std::function<std::unique_ptr<Network>(Device& device, const Config& config, const NetworkUse& use)>;

/// A value of model.kind and its network.
struct ModelKind {
  std::string name;
  std::vector<config::CustomKey> keys{};  ///< In decks: [model.<name>]; config::own_value reads them
  NetworkMaker make;
};

/// model.loss, for NetworkSpec::loss; empty: softmax.
std::optional<OutputLoss> output_loss_of(const ModelConfig& model);

/// model.initializer and its scale; of a click model LeCun's.
Initializer initializer_of(const ModelConfig& model);

/// Registers a user's model in addition to the built-in ones. To be called before the first deck is read, by
/// one thread, equally on all ranks. @throws UserError as config::add_model_kind does
void add_model(ModelKind kind);

/// Whether the network is a list of layers rather than one that a program registered.
bool is_listed(const ModelConfig& model);

/// The layers of a listed model that takes `input`: a sample, of a click model the features.
/// @throws UserError naming the layer that does not fit
std::vector<PlannedLayer> plan_model(const ModelConfig& model, const Shape& input, Purpose purpose);

/// The input shape of a network for samples of this shape. @param slots of click data, otherwise 0
Shape network_input(const ModelConfig& model, const Shape& sample, std::int64_t slots);

/// The network that the deck describes, by the maker of its kind. @throws UserError if it cannot take such
/// samples; InternalError if the network made is for another batch or purpose, or has other outputs or
/// another loss.
std::unique_ptr<Network> make_network(Device& device, const Config& config, const NetworkUse& use);

}  // namespace flotilla
