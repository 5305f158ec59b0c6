// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/train/monitor/last_arrivals.hpp"

namespace flotilla {

/// What a worker does when it does not wait for the others.
enum class Phase { input, compute, optimizer, saving, validation, pause, rest };
inline constexpr std::size_t phase_count = 7;

/// Where a worker's time went since the start of training, ns.
struct StepTimes {
  std::int64_t wait_ns = 0;  ///< For the others and for the wire
  std::array<std::int64_t, phase_count> phase_ns{};

  std::int64_t& operator[](Phase phase) { return phase_ns[static_cast<std::size_t>(phase)]; }
  StepTimes& operator-=(const StepTimes& other);
};

/// Who kept the others waiting and with what, over some meetings of all workers.
struct StragglerReport {
  std::int64_t meetings = 0;
  double elapsed_s = 0.0;  ///< Between them
  double wait_s = 0.0;     ///< Of it, mean over the workers: for the others and for the wire
  double compute_s = 0.0;  ///< The same: forward and backward
  int slowest = 0;         ///< The worker that cost the others most; what follows is about it
  std::string phase{};     ///< In which it fell behind: "compute"
  std::int64_t times_last = 0;
  double cost_s = 0.0;   ///< What all would have gained, had it come with the next one
  double usual_s = 0.0;  ///< The same of the others, their median

  /// Does the slowest cost so much more than the others that it is worth a word?
  bool stands_out() const;
  /// "rank 3 on node7: last 81 of 100 times, in compute, cost all 12 % (4.1 s)".
  /// @param rank of `slowest` in the job, on `host`
  std::string text(int rank, const std::string& host) const;
};

/// Finds stragglers by what the workers waited for each other, which each of them measures anyway: no barrier
/// and no common clock.
class StragglerMonitor {
 public:
  /// Room for `capacity` meetings between two reports; of more, every second, fourth … is kept.
  explicit StragglerMonitor(const mpi::Communicator& world, std::size_t capacity = 1024);

  /// After every step: this worker's totals, and how often all workers have met so far. Allocates nothing.
  void after_step(std::int64_t meetings, const StepTimes& total);
  /// Collective, where all workers are after the same step. Over the meetings since the last call.
  StragglerReport gather();
  /// Over all calls of gather().
  StragglerReport whole() const;
  std::int64_t times_last() const { return whole_.times_last[own()]; }  ///< This worker, over all calls
  double cost_s() const { return static_cast<double>(whole_.cost_ns[own()]) * 1e-9; }

 private:
  void keep(const StepTimes& spent);
  std::size_t own() const { return static_cast<std::size_t>(world_.rank()); }
  LastArrivals arrivals_of_kept(std::vector<int>& last_of) const;

  const mpi::Communicator& world_;
  std::vector<StepTimes> kept_;  ///< What was spent before each meeting that is kept
  std::size_t count_ = 0;
  std::int64_t stride_ = 1;  ///< One in so many meetings is kept
  std::int64_t met_ = 0;     ///< Since the last report
  std::int64_t meetings_ = 0;
  StepTimes at_meeting_;  ///< Totals at the last meeting
  StepTimes at_report_;

  LastArrivals whole_;
  StragglerReport sums_;              ///< Of all reports
  std::vector<double> phase_cost_s_;  ///< By worker and phase: what all reports blamed on it
};

}  // namespace flotilla
