// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/communication_lanes.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/core/wire.hpp"

namespace flotilla::mpi {

/// Options of `flotilla bench all-reduce`: sizes from min_bytes, each twice the one before, to max_bytes.
struct AllReduceBenchOptions {
  std::size_t min_bytes = std::size_t{1} << 10;
  std::size_t max_bytes = std::size_t{256} << 20;
  bool in_place_only = false;
  std::size_t rounds = 0;   ///< Measured calls; 0: 7 to 101, fewer where they take longer.
  int ranks_per_group = 0;  ///< Ranks per group of "hierarchical"; 0: a group per host
  int communicators = 1;    ///< More than 1: also rows with this many concurrent all-reduces
};

/// One algorithm at one size. Definitions as in nccl-tests.
struct AllReduceBenchRow {
  /// "mpi": one MPI_Allreduce of the library. "mpi-pieces": strategy.all_reduce = "mpi" where it differs from
  /// that (above its piece size). "shared-memory": strategy.all_reduce = "shared-memory", if all ranks share
  /// a host. "hierarchical", if there is more than one group. "memory-limit": "shared-memory" without
  /// synchronisation. In a device's memory: the values of strategy.all_reduce.
  std::string algorithm;
  Wire wire = Wire::float32;
  int communicators = 1;  ///< n: n all-reduces of a part of the data each, at the same time
  std::size_t bytes = 0;  ///< Size of the data on each rank.
  bool in_place = true;
  double time_us = 0;     ///< Median over calls of the slowest rank's time.
  double algbw_gb_s = 0;  ///< bytes / time.
  double busbw_gb_s = 0;  ///< algbw · 2 (n − 1) / n on n ranks.
  bool correct = false;   ///< Every value of every checked call was exact on every rank.
};

/// Collective. `on_row` gets each row as it is measured, the same on every rank. The algorithms take turns
/// within a size, because machines drift. Buffers come from malloc as they do in training.
/// @throws UserError if min_bytes is less than 4 or above max_bytes, if the ranks cannot form these groups or
/// communicators, or if /dev/shm is too small.
void bench_all_reduce(const Communicator& world, const AllReduceBenchOptions& options,
                      const std::function<void(const AllReduceBenchRow&)>& on_row);

/// Fills with small integers whose sum over `ranks` is exact on the wire, whatever the order of addition. (In
/// float up to some thousand ranks; bfloat16 has zeros only above 256.)
void fill_for_exact_sum(std::span<float> data, Wire wire, int rank, int ranks);

/// Whether every value is the sum over ranks of what fill_for_exact_sum() wrote.
bool is_exact_sum(std::span<const float> result, Wire wire, int ranks);

/// An algorithm that is measured at one size, in turn with others.
struct Candidate {
  AllReduceBenchRow row{};
  std::function<void()> fill{};      ///< Fills the data with values whose sum is exact
  std::function<bool()> is_exact{};  ///< Checks the sum after a call
  std::function<void()> clear{};     ///< Sets the data to zeros
  std::function<void()> sum{};
  std::function<void()> wait = [] {};  ///< Waits for the work that `sum` queued
  std::vector<double> times_us{};
};

/// An all-reduce, or several at a time, each of a part of the data.
class BenchLanes {
 public:
  explicit BenchLanes(std::vector<std::unique_ptr<Collectives>> lanes);
  void sum(DeviceSpan<float> data);
  void wait();  ///< For the work that sum() queued

 private:
  std::vector<std::unique_ptr<Collectives>> lanes_;
  std::optional<CommunicationLanes> together_;  ///< Lanes of several communicators
};

/// Collective. Measures candidates of one size in turn, `rounds` times each (0: enough for a median within
/// some seconds), and completes their rows, equal on every rank.
void take_turns(const Communicator& world, std::span<Candidate> candidates, std::size_t rounds);

}  // namespace flotilla::mpi
