// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/start/network_check.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/deck.hpp"
#include "src/job/failure.hpp"
#include "src/parameter_server/worker/server_link.hpp"
#include "src/train/beginning.hpp"
#include "src/train/resume.hpp"
#include "src/train/stage_data.hpp"

namespace flotilla {

/// Facts about the machines, found at the start of a run.
struct StartUp {
  std::vector<mpi::Place> places;             ///< Places of all ranks of the job
  std::optional<mpi::NetworkReport> network;  ///< Only with several hosts, unless the deck forbids it
};

/// Collective over all ranks of the job. Checks that all hosts share the output folder, and measures the
/// network between them. @param places of all ranks @throws AgreedFailure as check_shared_folder() does
StartUp probe_machines(const Config& config, const mpi::Communicator& world,
                       const std::vector<mpi::Place>& places, mpi::Watchdog& watchdog);

/// Collective over the workers. Copies the data to each host where the deck asks for that, and sets the paths
/// in `config` to the copies. @throws AgreedFailure as stage_data() does
std::optional<Staged> stage(Config& config, const mpi::Communicator& workers, const ServerLink* servers,
                            mpi::Watchdog& watchdog);

/// The values that a run begins with, by the checkpoint that find_beginning() found or by the deck.
struct StartValues {
  Continuation continuation{};
  LoadedWeights loaded{};  ///< Initial weights
  Beginning beginning{};
  std::string nothing_left{};  ///< nothing_left(); empty: there are steps to train
  std::string room{};          ///< checkpoint_room(); empty: nothing will be saved
};

/// Collective over the workers. Restores the checkpoint, or loads the initial weights, and determines what is
/// left to do and to be saved. @throws AgreedFailure for the user's mistakes, on every rank
StartValues restore_or_load(const std::optional<LoadedCheckpoint>& found, RunParts& run,
                            std::vector<std::string>& warnings);

/// "1.21 GB/s and 25 µs between 2 hosts"
std::string describe(const mpi::NetworkReport& network);

/// Warnings about the binding of the workers to processors.
/// @param workers their places
std::vector<std::string> warnings_of_binding(const Config& config, const StartUp& start,
                                             const std::vector<mpi::Place>& workers);

/// A line for the log of the rank at `place`: "rank 3 is rank 1 of host h1, on cores 0-1, socket 0".
std::string describe(const mpi::Place& place);

}  // namespace flotilla
