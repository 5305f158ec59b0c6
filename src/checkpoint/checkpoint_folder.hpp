// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

/// The checkpoints of one run, by name only.
class CheckpointFolder {
 public:
  /// Makes the folder. @throws UserError if it is not writable.
  explicit CheckpointFolder(std::string folder);

  void make() const;                         ///< If it is not there. @throws UserError naming it.
  void make_parts(std::int64_t step) const;  ///< The folder of that step's parts, likewise.
  std::string path_of(std::int64_t step) const;
  std::string part_path(std::int64_t step, int worker) const;  ///< "…/step-00000400.parts/worker-0003.h5"
  std::string server_part_path(std::int64_t step, int server) const;  ///< "…/server-0003.h5", likewise
  /// What killed runs left: step-N.h5.tmp-PID, and parts whose checkpoint was not written.
  void remove_unfinished() const;
  /// The parts of a checkpoint that was not written, or is no more.
  void remove_parts(std::int64_t step) const;
  void remove_orphaned_parts(std::int64_t step) const;  ///< Unless a checkpoint of that step is there
  /// To be called when `step` was saved. Removes the good checkpoints before it, but for the newest `keep`
  /// − 1. Damaged ones neither count nor go: they may be all that is left of something. Nor do later ones, of
  /// a run that was set back.
  void saved(std::int64_t step, std::int64_t keep);

 private:
  bool good(std::int64_t step, const std::string& path);

  std::string folder_;
  std::map<std::int64_t, bool> good_;  ///< By step; verified once each
};

/// Where a part of a checkpoint lies: "…/step-00000400.parts/worker-0003.h5" of "…/step-00000400.h5".
std::string part_file(const std::string& checkpoint, const CheckpointPart& part);

/// What is wrong with a part of a checkpoint, as the end of a sentence that begins with the checkpoint; empty
/// if it is good.
std::string part_damage(const std::string& checkpoint, const CheckpointPart& part);

/// The complete checkpoints in a folder by step: "step-00000400.h5" → 400. @throws UserError if it can't be
/// read.
std::map<std::int64_t, std::string> checkpoints_in(const std::string& folder);

}  // namespace flotilla
