// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <span>

#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// Lets workers that step independently stop after one common step, without waiting for their next
/// collective, and adds up values of all of them at the steps at which they do come together. Messages go
/// along a tree of the workers (rank_tree.hpp): each worker has few neighbours.
///
/// A worker that learns of a request to stop passes it on, sends the number of steps it has done and waits
/// until all have done so; the largest number is the step after which all gather. A worker that has done more
/// steps is not waited for: inside gather() it answers with that step.
///
///     if (consensus.stop_requested() && consensus.must_gather(steps))
///       stop = consensus.gather(steps, mine, sums);
class StopConsensus {
 public:
  /// Collective. @param values doubles that each worker gives to gather()
  StopConsensus(const Communicator& workers, std::size_t values);
  StopConsensus(const StopConsensus&) = delete;
  StopConsensus& operator=(const StopConsensus&) = delete;
  ~StopConsensus();  ///< Collective; nothing while an exception is being thrown.

  void ask_to_stop();
  /// Receives what other ranks have sent. @returns whether this worker knows of a request to stop
  bool stop_requested();
  /// For a worker that knows of a request, after a step at which the workers do not gather anyway. Waits
  /// until all workers know; from then on it must be called after every such step. A worker that takes steps
  /// together with others may call it only after steps after which they all do.
  /// @param steps done @param step_s seconds that a step takes
  /// @returns whether the workers gather after this step
  bool must_gather(std::int64_t steps, double step_s = 0.0);
  /// Valid after must_gather(): the seconds that the slowest worker needs from the steps it had done then to
  /// the step after which all gather.
  double catch_up_s() const;
  /// Collective, after `steps` steps. Sums over the workers, added in rank order, equal on every worker.
  /// @returns whether a stop was requested, equal on every worker
  bool gather(std::int64_t steps, std::span<const double> mine, std::span<double> sums,
              std::source_location where = std::source_location::current());
  /// Waits for something else, `over`, that other workers may only bring about after an agreement on a stop,
  /// in which this worker takes part meanwhile. @param steps done
  void attend(std::int64_t steps, const std::function<bool()>& over);
  std::size_t sent_bytes() const;  ///< Bytes that this worker sends in one gather()

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flotilla::mpi
