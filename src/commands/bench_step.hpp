// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

struct BenchStepArguments {
  std::string deck;
  std::vector<std::string> overrides;
  std::int64_t steps = 200;           ///< Measured, after a tenth of that to warm up
  std::int64_t checkpoint_every = 0;  ///< Steps; 0: none. Written into a temporary folder below run.output
  bool operations = false;            ///< List every operation, not only their kinds
  std::string json;                   ///< Also as JSON into this file; empty: no
};

/// Collective. `flotilla bench step`: the time of a training step of a deck, of its phases, and of its
/// operations when each is timed alone on the step's own buffers, in the same run.
int bench_step(const BenchStepArguments& arguments, const mpi::Communicator& world, FailureHandler& failure);

}  // namespace flotilla
