// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/arena.hpp"
#include "mpi/push_pull/push_pull_worker.hpp"
#include "src/config/config.hpp"
#include "src/parameter_server/protocol/placement.hpp"

namespace flotilla {

/// The facts about the model that servers need. Only workers make the model: a server opens no data.
///
/// Messages are laid out as a worker's gradient array (src/strategy/buckets.hpp): `leading` floats
/// (header and statistics), which are server 0's, then the parameters.
struct ServePlan {
  ArenaLayout layout{};          ///< Of the parameters
  std::int64_t leading = 0;      ///< Floats
  std::int64_t micro_steps = 1;  ///< Micro-steps of a worker's step, whose statistics add up
  int workers = 1;
  std::string folder{};  ///< The run's folder, for failure.json; empty: none
};

std::string to_text(const ServePlan& plan);
ServePlan plan_from(const std::string& text);

/// The optimizer of the servers: with geo the workers keep the deck's optimizer and its state.
OptimizerConfig servers_optimizer(const Config& config);

Placement place(const ServePlan& plan, const ServerConfig& config, int servers);

/// The part of the messages' arrays that each server owns. @param ranks of the servers, by index
std::vector<mpi::ServerShare> shares_of(const ServePlan& plan, const Placement& placement,
                                        const std::vector<int>& ranks);

/// The format of values in messages: in parts, unless an update needs norms of whole tensors.
mpi::PushPullWires wires_of(const Config& config);

}  // namespace flotilla
