// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mpi/core/communicator.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/deck.hpp"
#include "src/job/failure.hpp"
#include "src/parameter_server/worker/server_link.hpp"

namespace flotilla {

/// Collective. `flotilla train DECK --check`: constructs everything, runs two steps and a validation batch in
/// memory, prints the resolved deck, the memory per rank and the steps per epoch, and where the run would
/// begin. Refuses what train would refuse because of the files in run.output. Writes no file.
/// @param world the workers; `servers`: null without parameter servers
/// @param reads_data also reads each sample once, and reports all that cannot be read
int check(const LoadedDeck& deck, const mpi::Communicator& world, ServerLink* servers,
          FailureHandler& failure, mpi::Watchdog& watchdog, bool reads_data);

}  // namespace flotilla
