// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdlib>

namespace flotilla::test {

/// What launchers give a rank its number in: Open MPI's, and MPICH's.
inline constexpr std::array rank_variables = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};

/// The number of this process, for libraries that are loaded into ranks; null: no launcher has started it.
inline const char* launched_rank() {
  for (const char* const name : rank_variables)
    if (const char* const rank = std::getenv(name)) return rank;
  return nullptr;
}

}  // namespace flotilla::test
