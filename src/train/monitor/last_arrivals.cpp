// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/last_arrivals.hpp"

#include <algorithm>
#include <limits>

#include "kernels/error.hpp"

namespace flotilla {

LastArrivals::LastArrivals(int workers)
    : times_last(static_cast<std::size_t>(workers)), cost_ns(static_cast<std::size_t>(workers)) {}

void LastArrivals::record(std::span<const std::int64_t> waits_ns) {
  require(waits_ns.size() == cost_ns.size(), "waits of ", waits_ns.size(), " workers of ", cost_ns.size());
  if (waits_ns.size() < 2) return;
  const auto last = static_cast<std::size_t>(std::ranges::min_element(waits_ns) - waits_ns.begin());
  std::int64_t next = std::numeric_limits<std::int64_t>::max();
  for (std::size_t worker = 0; worker < waits_ns.size(); ++worker)
    if (worker != last) next = std::min(next, waits_ns[worker]);
  ++synchronisations;
  ++times_last[last];
  cost_ns[last] += next - waits_ns[last];
}

}  // namespace flotilla
