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

/// One algorithm that takes part in the turns at one size.
struct Candidate {
  AllReduceBenchRow row{};
  std::function<void()> fill{};      ///< With what adds up exactly…
  std::function<bool()> is_exact{};  ///< …as is checked after a call
  std::function<void()> clear{};     ///< To zeros
  std::function<void()> sum{};
  std::function<void()> wait = [] {};  ///< Until what `sum` queued is done
  std::vector<double> times_us{};
};

/// Several all-reduces of a part of the data each, at a time.
class BenchLanes {
 public:
  /// They must outlive it.
  explicit BenchLanes(std::span<Collectives* const> lanes);
  void sum(DeviceSpan<float> data);

 private:
  CommunicationLanes lanes_;
};

/// Collective. Measures candidates of one size by turns, `rounds` of them (0: enough for a median within
/// some seconds), and completes their rows, the same on every rank.
void take_turns(const Communicator& world, std::span<Candidate> candidates, std::size_t rounds);

}  // namespace flotilla::mpi
