// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint_writer.hpp"
#include "src/observe/reporter.hpp"
#include "src/train/run_parts.hpp"
#include "src/train/worker_state_source.hpp"

namespace flotilla {

/// Where a worker's checkpoints go: hands them to the writers, waits for these where it must, and reports
/// what became of them.
class Saves {
 public:
  /// Null: none.
  struct Writers {
    CheckpointWriter* shared = nullptr;  ///< Of the consensus, and of what workers hold themselves
    CheckpointWriter* own = nullptr;     ///< Of this worker's own model (checkpoint.per_rank)
  };
  /// @param last_good of an earlier run; empty: none
  Saves(RunParts& run, Reporter& reporter, const Writers& writers, std::string last_good);

  /// `counters`: the state but for what is in `state`.
  void start(const CheckpointState& counters, const StrategyState& state);
  /// In place of start(), on all workers: a save that cannot even begin counts as one that failed.
  void give_up(std::int64_t step, const std::string& why);
  /// Before anything changes the arrays that a save is written from.
  void wait_until_read(std::int64_t step);
  void report();  ///< Of those that ended since the last call
  void finish();  ///< Waits until nothing is being written, and reports.
  /// Waits at the end and reports. @throws UserError if the last save failed, on the worker that tells of it.
  void finish_last(std::int64_t step);
  std::string last_good() const;                               ///< As the end of a sentence
  std::int64_t stall_ns() const { return stall_ns_; }          ///< That training waited for copies and reads
  double longest_write_s() const { return longest_write_s_; }  ///< Of the reported ones

 private:
  struct Place {
    CheckpointWriter* writer;
    bool consensus;                            ///< Else this worker's own model
    bool speaks;                               ///< Its saves are those of the reports
    std::shared_ptr<StateSource> shared{};     ///< For Save, which says why it is not owned alone
    std::shared_ptr<WorkerStateSource> own{};  ///< Null: not needed so far
    std::string failure{};                     ///< Why the newest save failed; empty: it did not
  };
  void start(Place& place, const CheckpointState& counters, const StrategyState& state);
  static bool tells(const Place& place);
  void add_stall(std::int64_t stall_ns);
  /// A disk that is slow is no hang while it goes on. @param wait for some seconds: whether it has an end
  void wait_for_disk(const Place& place, const std::function<bool(double seconds)>& wait);

  RunParts& run_;
  Reporter& reporter_;
  std::string last_good_;
  std::vector<Place> places_;
  std::int64_t last_step_ = -1;  ///< Saved last
  bool being_read_ = false;      ///< The last save may still be reading the arrays that a step changes
  std::int64_t stall_ns_ = 0;
  double longest_write_s_ = 0.0;
  std::map<std::int64_t, double> stalls_;  ///< Seconds by step of saves not yet reported
};

}  // namespace flotilla
