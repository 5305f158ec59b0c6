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

/// What the servers must know of the model, which only workers make: a server opens no data.
///
/// What travels is laid out as a worker's gradient array (src/strategy/buckets.hpp): `leading` floats
/// (header and statistics), which are server 0's, then the parameters.
struct ServePlan {
  ArenaLayout layout{};          ///< Of the parameters
  std::int64_t leading = 0;      ///< Floats
  std::int64_t micro_steps = 1;  ///< Of a worker's step, whose statistics add up
  int workers = 1;
  std::string folder{};  ///< The run's, for a failure to be written into; empty: none
};

std::string to_text(const ServePlan& plan);
ServePlan plan_from(const std::string& text);

/// What servers run: workers that update themselves (geo) keep the optimizer's state.
OptimizerConfig servers_optimizer(const Config& config);

Placement place(const ServePlan& plan, const ServerConfig& config, int servers);

/// What each server owns of the arrays that travel. @param ranks the servers', by index
std::vector<mpi::ServerShare> shares_of(const ServePlan& plan, const Placement& placement,
                                        const std::vector<int>& ranks);

/// In parts, unless an update needs the norm of what all of them make up.
mpi::PushPullWires wires_of(const Config& config);

}  // namespace flotilla
