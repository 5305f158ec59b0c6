// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace flotilla {

/// Which worker arrived last at each collective, and the time it cost the others. Indexed by worker.
struct LastArrivals {
  std::int64_t meetings = 0;             ///< That were recorded
  std::vector<std::int64_t> times_last;  ///< How often the worker came last
  std::vector<std::int64_t> cost_ns;     ///< What all would have gained, had it come with the one before it

  explicit LastArrivals(int workers);
  /// One meeting, in which worker w waited waits_ns[w] for the others and for what all wait for alike: who
  /// waited least came last. Needs no clock that the workers share.
  void record(std::span<const std::int64_t> waits_ns);
};

}  // namespace flotilla
