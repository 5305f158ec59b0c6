// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "mpi/all_reduce/bench_all_reduce.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/communication_lanes.hpp"

namespace flotilla::mpi {

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

/// Concurrent all-reduces, each of a part of the data.
class BenchLanes {
 public:
  /// `lanes` must outlive this.
  explicit BenchLanes(std::span<Collectives* const> lanes);
  void sum(DeviceSpan<float> data);

 private:
  CommunicationLanes lanes_;
};

/// Collective. Measures candidates of one size in turn, `rounds` times each (0: enough for a median within
/// some seconds), and completes their rows, equal on every rank.
void take_turns(const Communicator& world, std::span<Candidate> candidates, std::size_t rounds);

}  // namespace flotilla::mpi
