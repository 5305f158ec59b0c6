// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mpi/core/communicator.hpp"

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

}  // namespace flotilla
