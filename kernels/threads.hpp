// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace flotilla {

/// Calls body(begin, end) on parts of 0 … count − 1, one for each of at most `threads` threads of OpenMP; in
/// the calling thread where that is one. The parts depend on `threads`: values that are added up must not
/// depend on the parts. body must not throw.
template <class Body>
void in_parts(std::int64_t threads, std::int64_t count, const Body& body) {
  const std::int64_t parts = std::min(threads, count);
  if (parts <= 1) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(parts))
  for (std::int64_t part = 0; part < parts; ++part) {
    body(count * part / parts, count * (part + 1) / parts);
  }
}

/// `threads` if `work` (values touched) is worth waking them, otherwise 1. A pass over 64 x 128 values takes
/// some microseconds: two threads gain nothing there, and next to a busy process each synchronisation of
/// theirs may cost a time slice of the scheduler (docs/appendix/performance.md).
inline std::int64_t threads_for(std::int64_t threads, std::int64_t work) {
  constexpr std::int64_t min_shared = 32'768;
  return work >= min_shared ? threads : 1;
}

}  // namespace flotilla
