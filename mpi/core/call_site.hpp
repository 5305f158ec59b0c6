// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>

namespace flotilla::mpi {

/// Where a collective is called, and in which step. A default argument, or a step in its place, makes it at
/// the call: `workers.barrier()`, `workers.barrier(step)`.
struct CallSite {
  CallSite(std::int64_t of_step = -1,  // NOLINT(google-explicit-constructor)
           std::source_location at = std::source_location::current())
      : step(of_step), where(at) {}

  std::int64_t step;  ///< Equal on all ranks; −1: none was given
  std::source_location where;
};

}  // namespace flotilla::mpi
