// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/roles.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/config.hpp"
#include "src/job/failure.hpp"
#include "src/parameter_server/worker/server_link.hpp"

namespace flotilla {

/// The roles of the ranks: all are workers where the configuration has no servers.
/// @param places of all ranks of the job @throws UserError where the roles do not fit them
mpi::RoleTable roles_of(const Config& config, const std::vector<mpi::Place>& places);

/// Collective. Assigns roles to the ranks; the servers serve while the workers run `work`, whose exit code
/// every rank returns. Without parameter servers all ranks are workers, and `servers` is null.
/// @throws AgreedFailure on every rank if `work` does on the workers
int with_servers(const Config& deck, const mpi::Communicator& world, FailureHandler& failure,
                 mpi::Watchdog& watchdog,
                 const std::function<int(const mpi::Communicator& workers, ServerLink* servers)>& work);

}  // namespace flotilla
