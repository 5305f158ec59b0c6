// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

/// The checkpoints of one run, by name only.
class CheckpointFolder {
 public:
  /// Makes the folder. @throws UserError if it is not writable.
  explicit CheckpointFolder(std::string folder);

  /// If it is not there; it then outlives a crash of the machine. @throws UserError naming it.
  void make() const;
  void make_parts(std::int64_t step) const;         ///< The folder of that step's parts, likewise.
  static std::string file_name(std::int64_t step);  ///< "step-00000400.h5"
  std::string path_of(std::int64_t step) const;
  std::string part_path(std::int64_t step, int worker) const;  ///< "…/step-00000400.parts/worker-0003.h5"
  std::string server_part_path(std::int64_t step, int server) const;  ///< "…/server-0003.h5", likewise
  /// What killed runs left: files under a temporary name, and parts whose checkpoint was not written.
  void remove_unfinished() const;
  /// The parts of a checkpoint that was not written, or is no more. @returns why some are still there; empty:
  /// none is
  std::string remove_parts(std::int64_t step) const;
  /// Unless a checkpoint of that step is there, or may be. What cannot be removed stays until the next start.
  void remove_orphaned_parts(std::int64_t step) const;
  /// To be called when the checkpoint of `step` is on the disk under its name and was verified with all its
  /// parts. Removes the good checkpoints before it, but for the newest `keep` − 1. Damaged ones neither count
  /// nor go: they may be all that is left of something. Nor do later ones, of a run that was set back.
  /// @param moved called as the disk goes on. @throws UserError if one cannot be removed.
  void saved(
      std::int64_t step, std::int64_t keep, const std::function<void()>& moved = [] {});

 private:
  bool good(std::int64_t step, const std::string& path, const std::function<void()>& moved);

  std::string folder_;
  std::map<std::int64_t, bool> good_;  ///< By step; verified once each
};

/// Whether a checkpoint may name a part so: "worker-0003.h5", "server-0003.h5".
bool is_part_name(std::string_view name);

/// Where a part of a checkpoint lies: "…/step-00000400.parts/worker-0003.h5" of "…/step-00000400.h5".
std::string part_file(const std::string& checkpoint, const CheckpointPart& part);

/// What is wrong with a part of a checkpoint, as the end of a sentence that begins with the checkpoint; empty
/// if it is good.
/// @param moved called as the disk goes on. @throws UnreadableFile.
std::string part_damage(
    const std::string& checkpoint, const CheckpointPart& part, const std::function<void()>& moved = [] {});

/// Checks that a name leads to the file that was verified before it got that name. Its values, whose
/// checksums it holds, are not read again. @throws UserError naming the file and what differs.
void require_written(const std::string& path, const CheckpointPart& written);

/// The complete checkpoints in a folder by step: "step-00000400.h5" → 400. @throws UserError if it can't be
/// read.
std::map<std::int64_t, std::string> checkpoints_in(const std::string& folder);

}  // namespace flotilla
