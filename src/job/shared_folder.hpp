// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"

namespace flotilla {

/// Collective. Refuses a run's folder that is not shared by all ranks: rank 0 writes a file into the folder,
/// or into its nearest existing parent, and each rank looks for it, for some time, because a network file
/// system may show it late. The file is removed again. Where rank 0 cannot write, nothing is
/// checked: the code that makes the folder reports it.
/// @param places of all ranks of `world`  @param folder as this rank names it, absolute  @param key of the
/// deck
/// @throws AgreedFailure on every rank, naming the hosts that do not see it
void check_shared_folder(const mpi::Communicator& world, const std::vector<mpi::Place>& places,
                         const std::string& folder, const std::string& key, double patience_s = 10.0);

}  // namespace flotilla
