// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

namespace flotilla::test {

/// This process's rank as Open MPI's launcher gives it, or MPICH's; null: neither has started it.
inline const char* rank_variable() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank != nullptr ? rank : std::getenv("PMI_RANK");
}

}  // namespace flotilla::test
