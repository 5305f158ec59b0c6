// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "mpi/communicator.hpp"
#include "mpi/watchdog.hpp"
#include "src/config/config.hpp"
#include "src/train/failure.hpp"
#include "src/train/server_link.hpp"

namespace flotilla {

/// Collective. Gives the ranks their roles; the servers serve while the workers do `work`, whose exit code
/// every rank returns. Without parameter servers all ranks work, and `servers` is null.
/// @throws AgreedFailure on every rank if `work` does on the workers
int with_servers(const Config& config, const mpi::Communicator& world, FailureHandler& failure,
                 mpi::Watchdog& watchdog,
                 const std::function<int(const mpi::Communicator& workers, ServerLink* servers)>& work);

}  // namespace flotilla
