// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/checkpoint/checkpoint_writer.hpp"
#include "src/config/config.hpp"
#include "src/files/run_lock.hpp"
#include "src/observe/reporter.hpp"
#include "src/train/find_checkpoint.hpp"
#include "src/train/saves.hpp"

namespace flotilla {

/// Collective. Connects the CheckpointWriters of all workers by a communicator of their own. All writers must
/// be destroyed together. A failed exchange ends the job. @param place of this worker in the job
SavingWorkers saving_workers(const mpi::Communicator& workers, const mpi::Place& place);

/// "FOLDER/rank-0003ENDING", the name of a file or folder of one rank.
std::string rank_file(const std::string& folder, int rank, const char* ending);

/// What the logs of ranks besides 0 hold in a run of so many workers.
LogLines log_lines(RankLogs rank_logs, int workers);

/// run.output: one run at a time writes there.
class RunFolder {
 public:
  /// Collective over the workers. Locks the folder if it is there, before its checkpoints are read.
  /// @throws AgreedFailure while another run holds it
  RunFolder(const Config& config, const mpi::Communicator& workers, mpi::Watchdog& watchdog);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Collective over the workers. Makes the folder if need be and opens what is written into it. Metrics of
  /// steps after the checkpoint are removed. @param place of this worker in the job @param resumed null: a
  /// new run
  /// @param deck path of the deck that was read: the resolved one does not replace it
  void open(const mpi::Place& place, const LoadedCheckpoint* resumed, const std::string& deck);

  Reporter& reporter() { return *reporter_; }  ///< Valid after open()
  /// @param resident null: no state is kept in memory
  Saves::Writers writers(ResidentSaves* resident = nullptr) {
    return {.shared = shared_writer_.get(), .own = own_writer_.get(), .resident = resident};
  }
  bool keeps_deck() const {
    return keeps_deck_;
  }  ///< Valid after open(): its deck.toml is the deck that was read
  std::string warning() const { return lock_ ? lock_->warning() : ""; }  ///< Warning of the lock; empty: none

 private:
  bool verified_in(const std::string& folder, const LoadedCheckpoint& checkpoint) const;
  void open_files(int job_rank, const LoadedCheckpoint* resumed, const SavingWorkers& saving);

  const Config& config_;
  const mpi::Communicator& workers_;
  mpi::Watchdog& watchdog_;
  std::optional<RunLock> lock_;  ///< Held on worker 0
  bool keeps_deck_ = false;
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<CheckpointWriter> shared_writer_;
  std::unique_ptr<CheckpointWriter> own_writer_;  ///< Null: not checkpoint.per_rank
};

}  // namespace flotilla
