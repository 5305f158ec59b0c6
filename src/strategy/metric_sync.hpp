// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <source_location>

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
  bool stop_requested() {
    return consensus_.stop_requested();
  }  ///< Whether a stop was requested, as far as this worker knows
  /// For a worker that knows of a request to stop, after a step at which the workers do not sync anyway:
  /// whether they do now. May wait for the others; once all know, the watchdog's deadline is put off by what
  /// the slowest needs to catch up.
  bool stops_after(const StepInfo& info, mpi::Watchdog& watchdog);
  /// StopConsensus::attend()
  void attend(std::int64_t steps, const std::function<bool()>& over) { consensus_.attend(steps, over); }
  /// Takes the outcome of a step of this worker: that of the last step is exchanged in the next sync(),
  /// together with the sums since the previous one.
  void contribute(const StepOutcome& mine);
  /// Times of this worker, whose sums are exchanged in the next sync().
  void contribute_times(double computing_s, double averaging_s) {
    mine_[Told::computing_s] += computing_s;
    mine_[Told::averaging_s] += averaging_s;
  }
  /// Collective, `steps` being done. @returns the outcome of the last step over all workers
  StepOutcome sync(std::int64_t steps, std::source_location where = std::source_location::current());
  /// Samples of all workers between the last two calls of sync().
  double samples_since() const { return sums_[Told::samples_since]; }
  double loss_since() const { return sums_[Told::loss_since]; }    ///< Sum of losses over those samples
  double computing_s() const { return sums_[Told::computing_s]; }  ///< Of all workers, like the next
  double averaging_s() const { return sums_[Told::averaging_s]; }
  /// Bytes that this worker sends in one sync().
  std::int64_t sent_bytes() const { return static_cast<std::int64_t>(consensus_.sent_bytes()); }

 private:
  /// Indices of the exchanged doubles.
  struct Told {
    enum What : std::size_t {
      samples,
      loss,
      top1,
      top5,
      samples_since,
      loss_since,
      computing_s,
      averaging_s,
      count
    };
  };

  mpi::StopConsensus consensus_;
  bool agreed_ = false;  ///< The step after which to stop is agreed on
  std::array<double, Told::count> mine_{};
  std::array<double, Told::count> sums_{};  ///< Over the workers, of the last sync()
};

}  // namespace flotilla
