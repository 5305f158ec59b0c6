// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mpi/core/topology.hpp"

namespace flotilla::mpi {

/// The ranks' use of their processors.
struct BindingUse {
  int threads = 0;             ///< Threads of a rank, as the deck says; 0: automatic
  bool steps_together = true;  ///< A step waits for the slowest rank
};

/// Warnings about the binding of ranks to processors: a line for each kind of mistake, with the remedy for
/// mpirun and srun. A pure function; empty: none.
/// @param places of all ranks that compute; cores_shared_by counts those only
std::vector<std::string> binding_warnings(const std::vector<Place>& places, const BindingUse& use);

}  // namespace flotilla::mpi
