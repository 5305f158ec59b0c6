// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/train/model_checks.hpp"
#include "src/train/run_parts.hpp"
#include "src/train/saves.hpp"
#include "src/train/training_loaders.hpp"
#include "src/train/training_state.hpp"
#include "src/train/validations.hpp"

namespace flotilla {

/// Decides about checkpoints by time, which all workers save after the same step although their clocks and
/// speeds differ: after some steps worker 0 broadcasts its decision and the step of the next one. That is
/// after half of the steps that fit into the remaining time, which bounds the delay if steps become slower.
class SaveClock {
 public:
  /// @param every_s seconds between checkpoints, positive
  /// @param steps done at the start  @param now_ns trace::now_ns() then
  SaveClock(double every_s, std::int64_t step, std::int64_t now_ns);

  /// Whether the workers call ask() after that many steps; equal on every worker.
  bool asks_after(std::int64_t steps) const { return steps >= next_; }
  /// Collective, `steps` being done. @returns whether to save now, equal on every worker
  bool ask(const mpi::Communicator& workers, std::int64_t steps, std::int64_t now_ns);
  /// A save began at now_ns, for any reason: the time counts from there.
  void saved(std::int64_t now_ns) { saved_ns_ = now_ns; }
  /// The seconds between saves from now on, positive.
  void set_every(double every_s) { every_s_ = every_s; }

 private:
  double every_s_;
  std::int64_t next_;      ///< Steps after which ask() is due
  std::int64_t saved_ns_;  ///< Time of the last save, or of the run's start
  std::int64_t asked_step_;
  std::int64_t asked_ns_;
};

/// When a training is saved, and what of it.
class Checkpoints {
 public:
  struct Parts {
    RunParts& run;
    Saves& saves;
    ModelChecks& checks;
    Validations& validations;
    const TrainingLoaders& loaders;
    TrainingState& state;
    std::string build;                           ///< For the versions in checkpoints
    std::map<std::string, std::string> changes;  ///< Continuation::changes
  };
  explicit Checkpoints(Parts parts);

  void begin();  ///< To be called before the first step: starts the time of checkpoint.every_s.
  /// Whether checkpoint.every asks for a save after that step.
  bool is_planned(std::int64_t step) const;
  /// To be called before a step: whether the workers synchronise after it to ask whether it is time to save.
  /// Equal on all.
  /// @param synchronises they do so anyway
  bool plan_question(bool synchronises);
  /// Collective after a step, where the workers have synchronised to ask. Saves if that is due, or keeps the
  /// state in the memory of the hosts.
  void save_if_due();
  /// Collective. Saves, unless this step was saved before.
  void save();
  void save_again();  ///< Collective. Saves although this step was saved before: with the best validation.
  /// Seconds that a save takes: the longest so far, or as a disk of 100 MB/s would take.
  double expected_s() const;
  /// Saves after the next step, and after that one where `next` is a position that is validated.
  std::int64_t expected_after_next_step(const Position& next) const;

 private:
  bool is_due();
  void keep_in_memory();
  CheckpointState counters() const;
  std::string save_rows(CheckpointState& state);
  std::vector<CheckpointPart> save_rows_of_servers(const CheckpointState& state);

  Parts parts_;
  std::int64_t saved_floats_ = 0;          ///< Floats in a checkpoint, without rows
  std::optional<SaveClock> clock_;         ///< Clock of a run with checkpoint.every_s
  std::optional<SaveClock> memory_clock_;  ///< Clock of the states in memory
  bool asks_clock_ = false;                ///< Asks the clock after the last step
  bool asks_memory_clock_ = false;         ///< Asks the clock of saves in memory after the last step
  std::int64_t last_step_;                 ///< The last that was saved
  std::int64_t longest_ns_ = 0;            ///< Longest stall of the training thread
};

}  // namespace flotilla
