// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// An opened checkpoint whose values are not read yet.
struct LoadedCheckpoint {
  std::string path;
  CheckpointState state;
  bool good_parts = false;  ///< All parts that a resume reads were verified
};

/// Collective. Rank 0 looks for the weights in `path`: a file, of weights only too, or a folder whose newest
/// good checkpoint it takes, or with `best` the one of the best validation. Damaged ones, and where a better
/// one is kept, are added to `warnings`.
LoadedCheckpoint load_checkpoint_everywhere(const std::string& path, bool best,
                                            const mpi::Communicator& world,
                                            std::vector<std::string>& warnings);

/// Collective. The checkpoint that run.resume asks for; empty: start from scratch. Where rank 0 looks for it
/// in a folder, the ranks verify its parts together, each part on one of them: those of the servers, and
/// those of the workers if it has as many.
/// @throws UserError where the deck forbids resuming from that checkpoint
std::optional<LoadedCheckpoint> find_beginning(const Config& config, const mpi::Communicator& world,
                                               mpi::Watchdog& watchdog, std::vector<std::string>& warnings);

/// The checkpoint file that `path` names: itself, or the newest good one of a folder, with an absolute path.
/// @param workers that will continue from it, whose parts must be good; −1: only its weights are read
std::string checkpoint_file_at(const std::string& path, std::vector<std::string>& warnings, int workers = -1,
                               const CheckParts& check = damage_of_parts);

/// The files that hold the rows of a checkpoint's tables: its servers' parts, or the file itself where it was
/// exported; none without tables. @throws UserError if one that was not verified is damaged or of another
/// save
std::vector<std::string> row_files_of(const LoadedCheckpoint& checkpoint);

/// Runs `read`. @throws UserError with the remedy where it throws UnreadableFile: to take an older checkpoint
/// in its place would lose the steps between them.
void refusing_unreadable(const std::function<void()>& read);

}  // namespace flotilla
