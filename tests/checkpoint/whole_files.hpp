// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_file.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/write_checkpoint.hpp"

namespace flotilla {

/// Reads and verifies a file, but for rows of tables. @throws UserError as CheckpointFile
inline Snapshot read_checkpoint(const std::string& path) {
  return CheckpointFile(path, CheckpointFile::Content::everything).all();
}

/// The newest good checkpoint of a run's folder.
inline Snapshot final_model(const std::string& run_folder) {
  return read_checkpoint(find_newest_good(run_folder, [](const std::string&) {}).value());
}

/// Writes one file at once, atomically and verified, as CheckpointWriter does. @returns what a checkpoint
/// says of it where it is a part. @throws UserError
inline CheckpointPart write_checkpoint_file(const std::string& path, const Snapshot& snapshot) {
  require_readable_names(snapshot.tensors);
  NewFile file(path, snapshot.tensors);
  for (std::size_t i = 0; i < snapshot.tensors.size(); ++i) file.write(i, snapshot.of(snapshot.tensors[i]));
  const CheckpointPart written = file.complete(&snapshot.state);
  file.give_name();
  return written;
}

}  // namespace flotilla
