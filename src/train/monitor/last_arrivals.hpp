// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace flotilla {

/// Which worker arrived last at each collective, and the time it cost the others. Indexed by worker.
struct LastArrivals {
  std::int64_t synchronisations = 0;     ///< Number of recorded synchronisations
  std::vector<std::int64_t> times_last;  ///< How often the worker arrived last
  std::vector<std::int64_t>
      cost_ns;  ///< Time that all would have saved, had it arrived with the one before it

  explicit LastArrivals(int workers);
  /// Records one synchronisation, in which worker w waited waits_ns[w], common waits included: the worker
  /// that waited least arrived last. Needs no common clock.
  void record(std::span<const std::int64_t> waits_ns);
};

}  // namespace flotilla
