// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/train/find_checkpoint.hpp"
#include "src/train/run_parts.hpp"

namespace flotilla {

/// Collective. Puts the tensors of model.initial_weights (a file or a folder) that fit the model into the
/// parameters of rank 0, if the deck names any. @returns one line per tensor of the model, on rank 0.
std::vector<std::string> load_initial_weights(RunParts& run, std::vector<std::string>& warnings);

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

/// Collective. Brings all workers to one model, worker 0's or each its own of the checkpoint.
void begin(RunParts& run, const LoadedCheckpoint* resumed, const Continuation& continuation);

}  // namespace flotilla
