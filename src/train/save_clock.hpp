// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mpi/core/communicator.hpp"

namespace flotilla {

/// Checkpoints by time, which all workers save after the same step though their clocks and paces differ: now
/// and then they ask worker 0's clock, and hear after which step to ask again. It takes half of the steps
/// that fit into the time that is left, so that a run whose steps become slower is not late by more than
/// that.
class SaveClock {
 public:
  /// @param every_s seconds between checkpoints, positive
  /// @param step done at the start, now_ns: trace::now_ns() then
  SaveClock(double every_s, std::int64_t step, std::int64_t now_ns);

  /// Whether the workers are to ask after that many steps; the same on every worker.
  bool asks_after(std::int64_t steps) const { return steps >= next_; }
  /// Collective, `steps` being done. @returns whether to save now, the same on every worker
  bool ask(const mpi::Communicator& workers, std::int64_t steps, std::int64_t now_ns);
  /// A save began then, for whatever reason: the time counts from there.
  void saved(std::int64_t now_ns) { saved_ns_ = now_ns; }

 private:
  double every_s_;
  std::int64_t next_;      ///< Steps after which to ask
  std::int64_t saved_ns_;  ///< Or when the run began
  std::int64_t asked_step_;
  std::int64_t asked_ns_;
};

}  // namespace flotilla
