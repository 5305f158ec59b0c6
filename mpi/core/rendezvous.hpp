// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <span>

#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// Where workers that else go on alone come together, and how they stop after one and the same step without
/// waiting until they would meet anyway.
///
/// Whoever learns that somebody wants to stop tells it to the others (through rank 0), names the steps it has
/// done, and stays there until all have done so; the largest number is where they meet once more. Nobody is
/// waited for by a worker that has gone further: one that waits in meet() answers too, with that step.
///
///     if (rendezvous.knows() && rendezvous.must_meet(steps)) stop = rendezvous.meet(steps, mine, all);
class Rendezvous {
 public:
  /// Collective. `values`: doubles that each worker brings to a meeting.
  Rendezvous(const Communicator& workers, std::size_t values);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;
  ~Rendezvous();  ///< Collective; nothing while an exception is being thrown.

  void ask_to_stop();
  /// Takes what others have told. @returns whether somebody wants to stop, as far as this worker knows.
  bool knows();
  /// After a step at which the workers do not meet anyway, `steps` being done, each in step_s seconds, by a
  /// worker that knows: stays until all know, and says whether they meet after this step. From then on to be
  /// called after every such step. A worker that takes steps together with others may call it only after a
  /// step after which they all do: one that stayed alone would be missing in their next step.
  bool must_meet(std::int64_t steps, double step_s = 0.0);
  /// Once must_meet() has returned: the seconds that the worker which needs longest takes from what it had
  /// done then to the step at which they meet.
  double catch_up_s() const;
  /// Collective, `steps` being done. Every worker's values, in rank order, on every worker.
  /// @returns whether somebody wants to stop here, the same on every worker.
  bool meet(std::int64_t steps, std::span<const double> mine, std::span<double> all,
            std::source_location where = std::source_location::current());

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flotilla::mpi
