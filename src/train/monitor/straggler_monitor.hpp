// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// The number of times that each worker arrived last at a collective, and the time that it cost the others.
/// Indexed by worker.
struct LastArrivals {
  std::int64_t synchronisations = 0;     ///< Number of recorded synchronisations
  std::vector<std::int64_t> times_last;  ///< Number of times that each worker arrived last
  std::vector<std::int64_t>
      cost_ns;  ///< Time that all would have saved, had it arrived with the one before it

  explicit LastArrivals(int workers);
  /// Records one synchronisation: the worker that waited least arrived last, which cost what the next one
  /// waited longer. Needs no common clock.
  void record(int last, std::int64_t cost);
};

/// The phases of a worker's time, besides waiting for others.
enum class Phase { input, compute, optimizer, saving, validation, pause, rest };
inline constexpr std::size_t phase_count = 7;

/// A worker's time by phase since the start of training, ns.
struct StepTimes {
  std::int64_t wait_ns = 0;  ///< For other workers and for the network
  std::array<std::int64_t, phase_count> phase_ns{};

  std::int64_t& operator[](Phase phase) { return phase_ns[static_cast<std::size_t>(phase)]; }
  StepTimes& operator-=(const StepTimes& other);
};

/// The worker that the others waited for, and the phase, over some synchronisations of all workers.
struct StragglerReport {
  std::int64_t synchronisations = 0;
  double elapsed_s = 0.0;  ///< Time of a worker between them, mean over the workers
  double wait_s = 0.0;     ///< For other workers and the network, mean over the workers
  double compute_s = 0.0;  ///< Forward and backward, mean over the workers
  int slowest = 0;         ///< The worker that cost the others most; what follows is about it
  std::string phase{};     ///< The phase in which the slowest fell behind: "compute"
  std::int64_t times_last = 0;
  double cost_s = 0.0;   ///< Time that all would have saved, had it arrived with the next one
  double usual_s = 0.0;  ///< Median of the other workers' costs

  /// Whether the slowest worker cost enough more than the others for a message.
  bool stands_out() const;
  /// "rank 3 on node7: last 81 of 100 times, in compute, cost all 12 % (4.1 s)".
  /// @param rank of `slowest` in the job, on `host`
  std::string text(int rank, const std::string& host) const;
  /// What helps where a worker falls behind in `phase`.
  std::string remedy() const;
};

/// Finds stragglers by the times that the workers waited for each other, which each measures anyway: without
/// a barrier or a common clock.
class StragglerMonitor {
 public:
  /// Keeps up to `capacity` synchronisations between two reports; of more, every second, fourth … is kept.
  explicit StragglerMonitor(const mpi::Communicator& world, std::size_t capacity = 1024);

  /// To be called after every step with this worker's totals and the number of synchronisations of all
  /// workers so far. Allocates nothing.
  void after_step(std::int64_t synchronisations, const StepTimes& total);
  /// Collective, where all workers are after the same step. Reports on the synchronisations since the last
  /// call.
  StragglerReport gather();
  /// The report over all calls of gather().
  StragglerReport whole() const;
  std::int64_t times_last() const { return whole_.times_last[own()]; }  ///< This worker, over all calls
  double cost_s() const { return static_cast<double>(whole_.cost_ns[own()]) * 1e-9; }

 private:
  void keep(const StepTimes& spent);
  std::size_t own() const { return static_cast<std::size_t>(world_.rank()); }
  LastArrivals arrivals_of_kept(std::vector<int>& last_of) const;

  const mpi::Communicator& world_;
  std::vector<StepTimes> kept_;  ///< Times before each kept synchronisation
  std::size_t count_ = 0;
  std::int64_t stride_ = 1;    ///< One of this many synchronisations is kept
  std::int64_t recorded_ = 0;  ///< Synchronisations since the last report
  std::int64_t synchronisations_ = 0;
  StepTimes at_synchronisation_;  ///< Totals at the last synchronisation
  StepTimes at_report_;

  LastArrivals whole_;
  StragglerReport sums_;              ///< Sums over all reports
  std::vector<double> phase_cost_s_;  ///< Cost by worker and phase, over all reports
};

/// A worker that run.emulate_straggler makes slow: it sleeps, so that the others keep their cores.
class EmulatedStraggler {
 public:
  /// @throws UserError if the deck's rank is no worker
  EmulatedStraggler(const EmulatedStragglerConfig& config, int rank, int workers);

  bool emulates() const { return config_.rank >= 0; }
  /// Sleeps as the deck asks at the end of a backward pass of `step`, whose computation took `compute_ns` so
  /// far. Returns the time slept, ns; 0 on the other workers.
  std::int64_t pause(std::int64_t step, std::int64_t compute_ns) const;
  /// "rank 1 takes 2 times as long in every 10th step"; empty: none is emulated.
  std::string description() const;

 private:
  EmulatedStragglerConfig config_;
  int rank_;
  int workers_;
};

}  // namespace flotilla
