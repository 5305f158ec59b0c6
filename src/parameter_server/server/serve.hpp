// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mpi/core/roles.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/config.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

/// Runs a server until the workers have left and sent the exit code. Collective with the workers' ServerLink.
/// @param places one per rank of the job @returns the exit code of the job.
/// @throws AgreedFailure if the workers end with one
int serve(const mpi::RoleCommunicators& roles, const Config& config, const std::vector<mpi::Place>& places,
          FailureHandler& failure, mpi::Watchdog& watchdog);

}  // namespace flotilla
