// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "mpi/rendezvous.hpp"
#include "src/train/strategy.hpp"

namespace flotilla {

/// Where workers that else go on alone learn what the step came to over all of them, and whether to stop.
class Meeting {
 public:
  explicit Meeting(const mpi::Communicator& workers);  ///< Collective.

  void ask_to_stop() { rendezvous_.ask_to_stop(); }
  bool knows() { return rendezvous_.knows(); }  ///< That somebody wants to stop.
  /// By a worker that knows, after a step at which they need not meet: whether they do now. It may wait for
  /// the others.
  bool stops_after(std::int64_t steps) { return rendezvous_.must_meet(steps); }
  /// Collective, `steps` being done. `mine` is this worker's outcome of the last of them.
  StepOutcome meet(std::int64_t steps, const StepOutcome& mine);
  std::int64_t sent_bytes() const;  ///< By a worker in one meeting

 private:
  enum Told : std::size_t { samples, loss, top1, top5, told };

  int workers_;
  mpi::Rendezvous rendezvous_;
  std::array<double, told> mine_{};
  std::vector<double> all_;
};

}  // namespace flotilla
