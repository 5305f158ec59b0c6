// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/all_reduce/collectives.hpp"

namespace flotilla::mpi {

/// An all-reduce to be measured.
struct AllReduceCandidate {
  std::string_view word;  ///< Word of its kind
  Collectives& sums;
};

/// The measured times of candidates, equal on every rank.
struct AllReduceChoice {
  struct Size {
    std::size_t floats = 0;
    std::size_t buckets = 0;  ///< Buckets of this size in a step
  };
  std::vector<Size> sizes;                     ///< In the order of the buckets
  std::vector<std::string> names;              ///< Names of the candidates
  std::vector<std::vector<double>> bucket_us;  ///< [candidate][size]: median of the slowest rank's times
  std::vector<double> step_us;                 ///< [candidate]: of all buckets, one after another
  std::size_t winner = 0;                      ///< clearly_fastest(step_us)

  const std::string& name() const { return names[winner]; }
  std::vector<std::string> table() const;  ///< Lines for the log
};

/// The candidate to use, given their times (at least one): the first unless a later one is faster by a tenth,
/// so that two equal runs seldom choose differently.
std::size_t clearly_fastest(std::span<const double> step_us);

/// Collective. Measures each candidate on buckets of the sizes of this run, for about a second. The buckets
/// hold zeros before and after; they must lie in memory that the candidates accept.
AllReduceChoice choose_all_reduce(const Communicator& world, std::span<const AllReduceCandidate> candidates,
                                  std::span<const DeviceSpan<float>> buckets);

}  // namespace flotilla::mpi
