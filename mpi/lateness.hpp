// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace flotilla::mpi {

/// Who kept the others waiting, from the arrival times that collectives record themselves. Indexed by rank;
/// ranks whose arrivals this rank cannot see stay 0.
struct Lateness {
  std::int64_t collectives = 0;          ///< All-reduces that were recorded
  std::vector<std::int64_t> times_last;  ///< How often the rank came last
  std::vector<std::int64_t> cost_ns;     ///< What all would have gained, had it come with the one before it
  std::vector<std::int64_t> waited_ns;   ///< What the rank waited for the last

  explicit Lateness(int ranks = 0);
  /// One collective of `members`, given by rank, that came at arrivals_ns[member].
  void record(std::span<const int> members, std::span<const std::int64_t> arrivals_ns);
  Lateness& operator+=(const Lateness& other);  ///< Of another communicator of the same ranks
};

}  // namespace flotilla::mpi
