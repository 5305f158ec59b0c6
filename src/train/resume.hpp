// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/config/deck.hpp"
#include "src/train/find_checkpoint.hpp"
#include "src/train/model_state.hpp"
#include "src/train/run_parts.hpp"

namespace flotilla {

/// Collective. Puts the tensors of model.initial_weights (a file or a folder) that fit the model into the
/// parameters of rank 0, if the deck names any. @returns on rank 0 what was loaded.
LoadedWeights load_initial_weights(RunParts& run, std::vector<std::string>& warnings);

/// The continuation of a run from a checkpoint.
struct Continuation {
  bool own_state = false;  ///< True: every worker has restored its own state; false: worker 0 the shared one
  std::map<std::string, double> numbers{};  ///< For Strategy::resume, as the next
  bool same_periods = false;
  /// Differences that run.resume_with has allowed so far, as checkpoints keep them: "changed at step 200" →
  /// "schedule.learning_rate: 0.1 in the checkpoint, 0.01 now"
  std::map<std::string, std::string> changes{};
  std::vector<std::string> notes{};  ///< Lines for the start: what could not be restored, what changes
  /// All from the checkpoint's deck, data set and number of workers. Another path
  /// to the same data is marked of_machine
  std::vector<ResumeDifference> differences{};
};

/// Collective. Restores a checkpoint into the strategy's live arrays: on each worker from its own part if
/// there is one for each, otherwise the shared state on worker 0.
/// @throws UserError if it belongs to another model or other data, or is damaged
Continuation restore_run(const LoadedCheckpoint& checkpoint, RunParts& run);

/// Collective. Brings all workers to one model, worker 0's or each its own of the checkpoint. If the
/// checkpoint has different models for workers that this deck keeps equal, all begin with its common model,
/// and a note is added.
void begin(RunParts& run, const LoadedCheckpoint* resumed, Continuation& continuation);

}  // namespace flotilla
