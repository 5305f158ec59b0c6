// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mpi/core/communicator.hpp"
#include "src/checkpoint/checkpoint_writer.hpp"

namespace flotilla {

/// Collective. Connects the CheckpointWriters of all workers by a communicator of their own. All writers must
/// be destroyed together. A failed exchange ends the job.
SavingWorkers saving_workers(const mpi::Communicator& workers);

}  // namespace flotilla
