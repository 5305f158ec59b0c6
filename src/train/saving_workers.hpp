// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mpi/core/communicator.hpp"
#include "src/checkpoint/checkpoint_writer.hpp"

namespace flotilla {

/// Collective. The workers for a CheckpointWriter on each of them, whose threads get a message space of their
/// own. All writers must be destroyed together. An exchange that fails ends the job.
SavingWorkers saving_workers(const mpi::Communicator& workers);

}  // namespace flotilla
