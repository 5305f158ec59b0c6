// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

/// The checkpoints of one run, by name only.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string folder) : folder_(std::move(folder)) {}

  /// Makes the folder unless it exists; it then outlives a crash of the machine. @throws UserError naming it,
  /// also if it is not writable.
  void make() const;
  void make_parts(std::int64_t step) const;  ///< Makes the folder of that step's parts. @throws UserError
  static std::string file_name(std::int64_t step);  ///< "step-00000400.h5"
  std::string path_of(std::int64_t step) const;
  std::string part_path(std::int64_t step, int worker) const;  ///< "…/step-00000400.parts/worker-0003.h5"
  std::string server_part_path(std::int64_t step, int server) const;  ///< "….parts/server-0003.h5"
  /// Removes leftovers of killed runs: files under a temporary name, and parts whose checkpoint was not
  /// written.
  void remove_unfinished() const;
  /// Removes the parts of a checkpoint that was not written or was removed. @returns why some remain; empty:
  /// none does
  std::string remove_parts(std::int64_t step) const;
  /// Removes the parts of a step unless its checkpoint exists, or may exist. Files that cannot be removed
  /// stay until the next start.
  void remove_orphaned_parts(std::int64_t step) const;
  /// Makes best.h5, best-2.h5, … links to the checkpoints of these steps, which saved() does not remove while
  /// they are; without such a checkpoint its link stays as it is. Further links are removed. @throws
  /// UserError
  void mark_best(const std::vector<std::int64_t>& steps) const;
  /// Takes the checkpoint of `step` for good: it was verified with all its parts.
  void verified(std::int64_t step) { good_[step] = true; }
  /// To be called when the checkpoint of `step` is on the disk under its name and was verified with all its
  /// parts. Removes the good checkpoints before it except for the newest `keep` − 1. Damaged ones are neither
  /// counted nor removed: they may be the only copy of something. The same holds for later ones, of a run
  /// that was resumed from an older checkpoint.
  /// @param moved called at every progress of the disk. @throws UserError if one cannot be removed.
  void saved(
      std::int64_t step, std::int64_t keep, const std::function<void()>& moved = [] {});

 private:
  bool good(std::int64_t step, const std::string& path, const std::function<void()>& moved);
  std::string best_link(std::size_t place) const;  ///< "…/best.h5", "…/best-2.h5"

  std::string folder_;
  std::map<std::int64_t, bool> good_;  ///< By step; verified once each
};

/// The checkpoint of the best validation that the run in a folder (or in checkpoints/ of it) keeps.
/// @throws UserError if it keeps none
std::string best_checkpoint_of(const std::string& folder);
/// "a better checkpoint is kept, '…/step-00000400.h5' (--best)", where `folder` is one of a run that keeps
/// another checkpoint than `taken` as the best; empty: it does not
std::string better_checkpoint_note(const std::string& folder, const std::string& taken);

/// Whether a checkpoint may name a part so: "worker-0003.h5", "server-0003.h5".
bool is_part_name(std::string_view name);

/// The path of a part of a checkpoint: "…/step-00000400.parts/worker-0003.h5" of "…/step-00000400.h5".
std::string part_file(const std::string& checkpoint, const CheckpointPart& part);

/// The damage of a part of a checkpoint, as the end of a sentence that begins with the checkpoint; empty:
/// none.
/// @param moved called at every progress of the disk. @throws UnreadableFile.
std::string part_damage(
    const std::string& checkpoint, const CheckpointPart& part, const std::function<void()>& moved = [] {});

/// Checks that the file at `path` is the one that was verified before it was renamed. Values are not read
/// again. @throws UserError naming the file and what differs.
void require_written(const std::string& path, const CheckpointPart& written);

/// "step-00000400.h5" → 400; nothing for other names.
std::optional<std::int64_t> step_of_name(std::string_view name);

/// The complete checkpoints in a folder by step: "step-00000400.h5" → 400. @throws UserError if it can't be
/// read.
std::map<std::int64_t, std::string> checkpoints_in(const std::string& folder);

/// The first thing that is wrong with the parts of a checkpoint, as the end of a sentence that begins with
/// it; empty if they are good.
/// @param moved called at every progress of the disk. @throws UnreadableFile
using CheckParts =
    std::function<std::string(const std::string& checkpoint, const std::vector<CheckpointPart>& parts,
                              const std::function<void()>& moved)>;

/// CheckParts by this process alone.
std::string damage_of_parts(
    const std::string& checkpoint, const std::vector<CheckpointPart>& parts,
    const std::function<void()>& moved = [] {});

/// The newest good checkpoint of a folder (a run's folder or its checkpoints/), found by scanning and
/// verifying. For each damaged one `on_damaged` gets a message. Empty if there is none. The parts of servers
/// must be good too: their rows cannot be restored from elsewhere.
/// @param workers The number of workers that resume; a checkpoint of that number must have good parts of
/// each. −1: no worker resumes
/// @param check of the parts
/// @throws UserError if the folder can't be read, or the system cannot read one of its files, or a checkpoint
/// is from a newer schema.
std::optional<std::string> find_newest_good(const std::string& folder,
                                            const std::function<void(const std::string&)>& on_damaged,
                                            int workers = -1, const CheckParts& check = damage_of_parts);

/// The path of a file as given; for a folder, its newest good checkpoint for this number of workers (see
/// find_newest_good).
/// @throws UserError if there is none.
std::string checkpoint_at(const std::string& file_or_folder,
                          const std::function<void(const std::string&)>& on_damaged, int workers = -1,
                          const CheckParts& check = damage_of_parts);

}  // namespace flotilla
