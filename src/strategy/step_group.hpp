// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// Those workers that take a step together, where these are not all: this one's group, or it alone.
struct StepGroup {
  mpi::Communicator workers;
  mpi::Communicator host;  ///< Those on this host
  std::vector<mpi::Place> places;
  StrategyConfig strategy;  ///< The deck's, as it holds inside the group
};

/// Collective. Nothing where all workers step together: all-reduce, or local SGD that begins with it.
/// @throws UserError (on every rank) if the deck's groups cannot be made of these workers
std::optional<StepGroup> make_step_group(const StrategyConfig& strategy, const mpi::Communicator& world,
                                         const std::vector<mpi::Place>& places);

}  // namespace flotilla
