// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace flotilla {

/// The checkpoints of one run, by name only.
class CheckpointFolder {
 public:
  /// Makes the folder. @throws UserError if it is not writable.
  explicit CheckpointFolder(std::string folder);

  void make() const;  ///< If it is not there. @throws UserError naming it.
  std::string path_of(std::int64_t step) const;
  void remove_unfinished() const;  ///< Files that killed runs left: step-N.h5.tmp-PID.
  /// To be called when `step` was saved. Removes the good checkpoints before it, but for the newest `keep`
  /// − 1. Damaged ones neither count nor go: they may be all that is left of something. Nor do later ones, of
  /// a run that was set back.
  void saved(std::int64_t step, std::int64_t keep);

 private:
  bool good(std::int64_t step, const std::string& path);

  std::string folder_;
  std::map<std::int64_t, bool> good_;  ///< By step; verified once each
};

/// The complete checkpoints in a folder by step: "step-00000400.h5" → 400. @throws UserError if it can't be
/// read.
std::map<std::int64_t, std::string> checkpoints_in(const std::string& folder);

}  // namespace flotilla
