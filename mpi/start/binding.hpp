// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mpi/core/topology.hpp"

namespace flotilla::mpi {

/// What the ranks do where they are.
struct BindingUse {
  int threads = 0;             ///< Of a rank, as the deck says; 0: what fits
  bool steps_together = true;  ///< A step waits for the slowest rank
};

/// What is wrong with the way in which the ranks were given processors: a line for each kind of mistake, with
/// the remedy for mpirun and srun. A pure function; empty where all is well.
/// @param places of all ranks that compute; cores_shared_by counts those only
std::vector<std::string> binding_warnings(const std::vector<Place>& places, const BindingUse& use);

}  // namespace flotilla::mpi
