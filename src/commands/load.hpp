// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/config/deck.hpp"
#include "src/observe/reporter.hpp"
#include "src/train/run_parts.hpp"

namespace flotilla {

/// Collective. Rank 0 reads the file, every rank checks the same text.
LoadedDeck load_deck_everywhere(const std::string& path, const std::vector<std::string>& overrides,
                                const mpi::Communicator& world);

/// A checkpoint whose values are still to be read.
struct LoadedCheckpoint {
  std::string path;
  CheckpointState state;
};

/// Collective. Rank 0 looks for the weights in `path`: a file, of weights only too, or a folder whose newest
/// good checkpoint it takes. Damaged ones are told to `warnings`.
LoadedCheckpoint load_checkpoint_everywhere(const std::string& path, const mpi::Communicator& world,
                                            std::vector<std::string>& warnings);

/// Collective. Puts the tensors of model.initial_weights (a file or a folder) that fit the model into the
/// parameters of rank 0, if the deck names any. @returns one line per tensor of the model, on rank 0.
std::vector<std::string> load_initial_weights(RunParts& run, std::vector<std::string>& warnings);

/// Collective. The checkpoint that run.resume asks for; nothing to start afresh. With the state of each
/// worker in it, it is one whose parts are good, if it is of as many workers.
/// @throws UserError where the deck forbids resuming from what is there
std::optional<LoadedCheckpoint> find_beginning(const Config& config, const mpi::Communicator& world,
                                               mpi::Watchdog& watchdog, std::vector<std::string>& warnings);

/// How a run goes on from a checkpoint.
struct Continuation {
  bool own_state = false;  ///< Every worker has its own state again; else worker 0 the shared one
  std::map<std::string, double> numbers{};  ///< For Strategy::resume
  std::string note{};                       ///< What is not as it was: a line for the start; empty: nothing
};

/// Collective. Puts a checkpoint into the strategy's live arrays: of each worker from its part where there is
/// one for each, else of worker 0 what all share.
/// @throws UserError if it is not of this model, data or damaged
Continuation restore_run(const LoadedCheckpoint& checkpoint, RunParts& run);

}  // namespace flotilla
