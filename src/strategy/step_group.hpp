// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// The workers that take a step together with this one, where these are not all: its group, or this one
/// alone.
struct StepGroup {
  mpi::Communicator workers;
  mpi::Communicator host;  ///< The workers of the group on this host
  std::vector<mpi::Place> places;
  ReductionConfig reduction;  ///< The deck's, adapted to the group
  /// The group of each of all workers; empty: each takes its steps alone
  std::vector<int> groups;
};

/// Collective. Empty without local SGD, and where that begins with steps of all workers together.
/// @throws UserError (on every rank) if these workers cannot form the deck's groups
std::optional<StepGroup> make_step_group(const Config& config, const mpi::Communicator& world,
                                         const std::vector<mpi::Place>& places);

}  // namespace flotilla
