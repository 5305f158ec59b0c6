// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace flotilla::flat {

/// Sweeps the functor over begin … end − 1. It is copied so that its constants stay in registers: through a
/// reference every store of a float might change them.
template <class Functor>
void sweep(const Functor& functor, std::int64_t begin, std::int64_t end) {
  const Functor own = functor;
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) own(i);
}

}  // namespace flotilla::flat
