// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <source_location>
#include <vector>

#include "mpi/core/stop_consensus.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/strategy/strategy.hpp"

namespace flotilla {

/// Sums the metrics of workers that step independently, at the steps after which they come together, and
/// agrees on a stop.
class MetricSync {
 public:
  explicit MetricSync(const mpi::Communicator& workers);  ///< Collective.

  void ask_to_stop() { consensus_.ask_to_stop(); }
  bool stop_requested() { return consensus_.stop_requested(); }  ///< As far as this worker knows
  /// For a worker that knows of a request to stop, after a step at which the workers do not sync anyway:
  /// whether they do now. May wait for the others; once all know, the watchdog's deadline is put off by what
  /// the slowest needs to catch up.
  bool stops_after(const StepInfo& info, mpi::Watchdog& watchdog);
  /// What a step of this worker came to: that of the last one is told in the next meeting, beside the sums
  /// since the last meeting.
  void contribute(const StepOutcome& mine);
  /// Collective, `steps` being done. @returns what the last of them came to over all workers
  StepOutcome sync(std::int64_t steps, std::source_location where = std::source_location::current());
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
  mpi::StopConsensus consensus_;
  bool agreed_ = false;  ///< On where to stop
  std::array<double, Told::count> mine_{};
  std::vector<double> all_;
};

}  // namespace flotilla
