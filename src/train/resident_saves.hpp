// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/checkpoint/checkpoint_writer.hpp"
#include "src/checkpoint/resident_folder.hpp"
#include "src/config/config.hpp"
#include "src/files/run_lock.hpp"
#include "src/train/run_parts.hpp"

namespace flotilla {

/// Collective over the workers, before a run looks for its checkpoint. Where the run was killed, writes the
/// newest state that its hosts kept in memory as an ordinary checkpoint, unless the run's checkpoints or
/// `run.resume` say otherwise; then frees the memory. @returns on worker 0 what was done, a line each
/// @throws AgreedFailure if it cannot be written; it stays in memory then
std::vector<std::string> rescue_resident_state(const Config& config, const mpi::Communicator& workers,
                                               mpi::Watchdog& watchdog);

/// Collective over the workers. @returns on worker 0 what rescue_resident_state() would do with the state in
/// memory, a line, provided that the parts of all workers are there; empty: there is none
std::string resident_state_line(const Config& config, const mpi::Communicator& workers);

/// Collective over the workers, after the strategy has taken its shared memory. Why the hosts keep no state
/// in memory; empty: they do. @throws AgreedFailure where checkpoint.resident is true and something is
/// against it
std::string why_none_in_memory(const RunParts& run);

/// The state of a training that its hosts keep in memory, for a start after processes were killed. The first
/// worker of each host writes it as a checkpoint into a ResidentFolder.
class ResidentSaves {
 public:
  /// Collective over the workers, where why_none_in_memory() is empty and run.output is there.
  explicit ResidentSaves(RunParts& run);
  ResidentSaves(const ResidentSaves&) = delete;
  ResidentSaves& operator=(const ResidentSaves&) = delete;

  CheckpointWriter* writer() { return writer_.get(); }  ///< Null on workers that write nothing
  bool writes_checkpoint() const {
    return run_.machine.host.is_root();
  }                                              ///< False: it writes this worker's part, or nothing
  std::int64_t bytes() const { return bytes_; }  ///< Size of one state
  /// On worker 0: the run has a checkpoint of that step, and later states follow it.
  void set_base_checkpoint(std::int64_t step);
  /// Collective over the workers. The training has ended in order: nothing stays in memory.
  void end();

 private:
  RunParts& run_;
  std::int64_t bytes_;
  ResidentRecord record_{};
  std::optional<RunLock> lock_;  ///< Lock on the folder in memory: it is in use
  std::unique_ptr<CheckpointWriter> writer_;
};

}  // namespace flotilla
