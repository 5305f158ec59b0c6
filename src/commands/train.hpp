// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

struct TrainArguments {
  std::string deck;
  std::vector<std::string> overrides;
  bool check = false;  ///< Construct everything, run two steps in memory, print the plan, write nothing
};

/// Collective. `flotilla train`. Returns the exit code. Before training starts it throws only exceptions that
/// every rank throws.
int train(const TrainArguments& arguments, const mpi::Communicator& world, FailureHandler& failure);

}  // namespace flotilla
