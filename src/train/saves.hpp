// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint_writer.hpp"
#include "src/observe/reporter.hpp"
#include "src/train/resident_saves.hpp"
#include "src/train/run_parts.hpp"
#include "src/train/worker_state_source.hpp"

namespace flotilla {

/// A worker's checkpoints: starts the writers, waits for them where needed, and reports the outcomes.
class Saves {
 public:
  /// The checkpoint writers; null: none.
  struct Writers {
    CheckpointWriter* shared = nullptr;  ///< For the consensus and the workers' parts
    CheckpointWriter* own = nullptr;     ///< For this worker's own model (checkpoint.per_rank)
    ResidentSaves* resident = nullptr;   ///< For the state in the memory of hosts; the same on all workers
  };
  /// @param last_good newest checkpoint of an earlier run; empty: none
  Saves(RunParts& run, Reporter& reporter, const Writers& writers, std::string last_good);

  /// Starts a save. `counters`: the checkpoint's state without the contents of `state`.
  /// @param best_steps Save::best_steps
  void start(const CheckpointState& counters, const StrategyState& state,
             const std::vector<std::int64_t>& best_steps);
  /// Collective. Starts to keep the state in memory, where this worker does that; the checkpoint's state is
  /// worker 0's. Not while a checkpoint is still being read.
  void start_resident(const CheckpointState& counters, const StrategyState& state);
  /// Processor time that the newest state in memory took on the writing thread, seconds; before the first:
  /// what it may take. 0: none is kept
  double resident_write_s() const { return resident_write_s_; }
  /// The training has ended in order: no state stays in memory.
  void end_resident();
  /// Instead of start(), on all workers: records a save that cannot start as failed.
  void give_up(std::int64_t step, const std::string& why);
  /// To be called before the arrays change from which a save is written.
  void wait_until_read(std::int64_t step);
  void report();  ///< Reports saves that ended since the last call
  void finish();  ///< Waits until nothing is being written, and reports.
  /// Waits at the end and reports. @throws UserError if the last save failed, on the worker that reports it.
  void finish_last(std::int64_t step);
  std::string last_good() const;  ///< The newest good checkpoint, as the end of a sentence
  bool keeps_consensus() const { return std::ranges::any_of(targets_, &Target::is_consensus); }
  std::int64_t stall_ns() const { return stall_ns_; }  ///< Time that training waited for copies and reads
  double longest_write_s() const { return longest_write_s_; }  ///< Longest write of the reported saves

 private:
  enum class Purpose { consensus, own_model, in_memory };
  struct Target {
    CheckpointWriter* writer;
    Purpose purpose;
    bool speaks;                               ///< This worker reports its saves
    std::shared_ptr<StateSource> shared{};     ///< Shared with Save, whose writing thread may outlive this
    std::shared_ptr<WorkerStateSource> own{};  ///< Null: not needed so far
    std::string failure{};                     ///< Why the newest save failed; empty: it did not

    bool is_consensus() const { return purpose == Purpose::consensus; }
    bool is_on_disk() const { return purpose != Purpose::in_memory; }
  };
  void start(Target& target, const CheckpointState& whole, const StrategyState& state,
             const std::vector<std::int64_t>& best_steps);
  CheckpointState with_numbers(const CheckpointState& counters, const StrategyState& state) const;
  bool source_is_read(const Target& target);
  void report(Target& target);
  /// Whether this worker reports failures of the writer: those of the consensus are reported by one worker.
  static bool reports_failure(const Target& target);
  void add_stall(std::int64_t stall_ns);
  /// Waits, and reports progress of the disk to the watchdog. @param wait Waits for some seconds and returns
  /// whether it is done
  void wait_for_disk(const Target& target, const std::function<bool(double seconds)>& wait);

  RunParts& run_;
  Reporter& reporter_;
  ResidentSaves* resident_;
  std::string last_good_;
  std::vector<Target> targets_;
  std::int64_t last_step_ = -1;  ///< Step of the last save
  bool being_read_ = false;      ///< The last save may still be reading the arrays that a step changes
  std::int64_t stall_ns_ = 0;
  double longest_write_s_ = 0.0;
  double resident_write_s_ = 0.0;
  std::map<std::int64_t, double> stalls_;  ///< Seconds by step of saves not yet reported
};

}  // namespace flotilla
