// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

struct CompareArguments {
  std::string plan;                    ///< TOML (src/compare/plan.hpp)
  std::vector<std::string> overrides;  ///< For all of its runs
};

/// Collective. `flotilla compare`: trains all runs of a plan with all seeds, one after another, leaving out
/// those that have ended before, and writes the table. Returns the exit code. Throws only exceptions that
/// every rank throws.
int compare(const CompareArguments& arguments, const mpi::Communicator& world, FailureHandler& failure);

}  // namespace flotilla
