// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

/// The outcome of one save.
struct SaveReport {
  std::int64_t step = 0;
  std::string path;
  std::int64_t bytes = 0;  ///< Size, with its parts
  double write_s = 0.0;
  double processor_s = 0.0;  ///< Processor time of the writing thread
  std::string error;  ///< Empty: saved. Otherwise why not (disk full …); the last good checkpoint is kept.
  std::string warning{};  ///< Error after it was saved; older checkpoints are still there.
};

/// The workers that save together.
struct SavingWorkers {
  int rank = 0;                     ///< Worker 0 writes the checkpoint, and reports
  std::string name = "the worker";  ///< In messages: "rank 3 on node7"
  /// False: each host has a folder of its own with the parts of its workers, and one worker of each host
  /// writes the checkpoint into it.
  bool share_folder = true;
  /// Collective over the workers, on their writing threads: each gives a text and gets those of all, in the
  /// order of ranks; the step is that of the checkpoint, the same on all. Null: this worker saves alone.
  std::function<std::vector<std::string>(const std::string&, std::int64_t step)> exchange{};
};

/// The content of a save; servers have written their parts before, and the state names them. The sources are
/// read on the writing thread, which may outlive their creator.
struct Save {
  CheckpointState state;
  std::shared_ptr<ValueSource>
      shared{};                        ///< Values of the checkpoint itself; null unless this worker writes it
  std::shared_ptr<ValueSource> own{};  ///< Values of this worker's part; null on all workers: no parts
  std::map<std::string, double> own_numbers{};  ///< Numbers in the state of this worker's part
  std::vector<std::int64_t> best_steps{};  ///< Checkpoints that stay as best.h5, best-2.h5, …; empty: none
};

/// Writes checkpoints on a thread: temporary name → flush → fsync → verify → rename → fsync of the folder.
/// Parts come first, and the checkpoint that names them only if all workers have written theirs.
/// Keeps the last `keep`, and never removes the newest good one.
class CheckpointWriter {
 public:
  /// Makes `folder`; worker 0 removes leftovers of a killed run there: a folder belongs to one run.
  /// @param keep 1 or more. @throws UserError if the folder is not writable.
  CheckpointWriter(std::string folder, std::int64_t keep, SavingWorkers workers = {});
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Waits for the write in progress. While an exception is being thrown it abandons the write, and waits
  /// only until the sources are not read any more.
  ~CheckpointWriter();

  /// As CheckpointFolder::verified(), before the first save: saves do not read that checkpoint again.
  void verified(std::int64_t step);
  /// Waits for the write in progress, then starts this one. `save`'s sources must not change until
  /// wait_until_read().
  void start(Save save);
  void wait_until_read();                    ///< Waits until nothing reads from the sources of the last save.
  bool wait_until_read_for(double seconds);  ///< For at most `seconds`. @returns whether nothing reads them.
  std::vector<SaveReport>
  reports();                        ///< Saves that ended since the last call; where all write parts, on all.
  void finish();                    ///< Waits until nothing is being written.
  bool finish_for(double seconds);  ///< For at most `seconds`. @returns whether nothing is being written.
  std::int64_t movements() const;   ///< Number of times the disk has progressed.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flotilla
