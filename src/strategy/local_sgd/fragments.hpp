// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "models/arena.hpp"
#include "mpi/all_reduce/communication_lanes.hpp"
#include "src/strategy/state_array.hpp"

namespace flotilla {

/// A part of a model that is averaged at one time: a range of its parameters (floats), and whether the
/// statistics, which follow the parameters, belong to it.
struct Fragment {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool statistics = false;

  std::size_t size() const { return end - begin; }
};

/// Cuts parameters at the borders of tensors into `count` fragments whose sizes are as equal as that allows;
/// the last one has the statistics. @throws UserError if there are more fragments than tensors
std::vector<Fragment> cut_fragments(const ArenaLayout& parameters, std::int64_t count);

/// Where averages are made. Models are laid out as the worker's own; all-reduces can reach them.
struct AveragingRoom {
  Model consensus;  ///< Room for a second model
  Model averages;   ///< Room for averages; empty unless StreamingConfig::needs_room()
  std::vector<Fragment> fragments;
  /// Sums over all workers while training goes on, of parameters, then of what another wire would round; null
  /// where nothing is on its way.
  std::unique_ptr<mpi::CommunicationLanes> lanes{};
};

/// A fragment on its way to the average: it was sent after an earlier step and takes effect after a later
/// one.
struct Flight {
  std::int64_t lands_at = 0;  ///< Steps done when it takes effect
  bool arrived = false;       ///< The average is here
};

}  // namespace flotilla
