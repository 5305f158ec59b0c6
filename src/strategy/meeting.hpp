// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <source_location>
#include <vector>

#include "mpi/core/rendezvous.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/strategy/strategy.hpp"

namespace flotilla {

/// Where workers that else go on alone learn what the step came to over all of them, and whether to stop.
class Meeting {
 public:
  explicit Meeting(const mpi::Communicator& workers);  ///< Collective.

  void ask_to_stop() { rendezvous_.ask_to_stop(); }
  bool knows() { return rendezvous_.knows(); }  ///< That somebody wants to stop.
  /// By a worker that knows, after a step at which they need not meet: whether they do now. It may wait for
  /// the others; once all know, the deadline is put off by what the last one needs to catch up.
  bool stops_after(const StepInfo& info, mpi::Watchdog& watchdog);
  /// What a step of this worker came to: that of the last one is told in the next meeting, beside the sums
  /// since the last meeting.
  void tell(const StepOutcome& mine);
  /// Collective, `steps` being done. @returns what the last of them came to over all workers
  StepOutcome meet(std::int64_t steps, std::source_location where = std::source_location::current());
  /// Of all workers in the steps told between the last two meetings.
  double samples_since() const { return sum_of(Told::samples_since); }
  double loss_since() const { return sum_of(Told::loss_since); }  ///< Sum over the samples
  std::int64_t sent_bytes() const;                                ///< By a worker in one meeting

 private:
  /// In doubles.
  struct Told {
    enum What : std::size_t { samples, loss, top1, top5, samples_since, loss_since, count };
  };
  double sum_of(Told::What what) const;

  int workers_;
  mpi::Rendezvous rendezvous_;
  bool agreed_ = false;  ///< On where to stop
  std::array<double, Told::count> mine_{};
  std::vector<double> all_;
};

}  // namespace flotilla
