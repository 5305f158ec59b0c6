// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/network.hpp"
#include "models/worker_exchange.hpp"
#include "src/config/config.hpp"
#include "src/config/custom_keys.hpp"

namespace flotilla {

/// What the network of a deck is made for.
struct NetworkUse {
  Shape sample;            ///< Of click data: of its dense values
  std::int64_t slots = 0;  ///< Of click data; else 0
  std::int64_t batch = 0;
  Purpose purpose = Purpose::training;
  bool accumulate = false;             ///< backward adds to the gradients (micro-steps)
  WorkerExchange* exchange = nullptr;  ///< Null: batch norm of each worker's own batch; must outlive it
};

/// Builds the network that a deck describes: takes batches of `use`, has config.model.classes outputs and
/// config.train.label_smoothing in its loss. @throws UserError if it cannot take such samples.
using NetworkMaker =
    std::function<std::unique_ptr<Network>(Device& device, const Config& config, const NetworkUse& use)>;

/// What model.kind names.
struct ModelKind {
  std::string name;
  std::vector<config::CustomKey> keys{};  ///< In decks: [model.<name>]; config::own_value reads them
  NetworkMaker make;
};

/// Adds a user's own model to those that come along. Before the first deck is read, by one thread, alike on
/// all ranks. @throws UserError as config::add_model_kind does
void add_model(ModelKind kind);

/// The network that the deck describes, by the maker of its kind. @throws UserError if it cannot take such
/// samples; InternalError if the network made is for another batch or purpose, or has other outputs.
std::unique_ptr<Network> make_network(Device& device, const Config& config, const NetworkUse& use);

}  // namespace flotilla
