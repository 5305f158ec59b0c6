// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/config/deck.hpp"
#include "src/job/failure.hpp"
#include "src/observe/reporter.hpp"

namespace CLI {
class App;
}

namespace flotilla {

struct TrainArguments {
  std::string deck;
  std::vector<std::string> overrides;
  Verbosity verbosity = Verbosity::normal;
  bool check_data = false;  ///< Together with `check`: read each sample once
  bool check = false;       ///< Construct everything, run two steps in memory, print the plan, write nothing
};

/// Adds --verbose and --quiet, of commands that train.
void add_verbosity(CLI::App& command, Verbosity& verbosity);

/// One training of a deck that all ranks have checked.
struct Training {
  const std::string& deck_path;
  const LoadedDeck& deck;
  bool ends_job_when_diverged = true;
  bool job_has_advanced = false;  ///< An earlier training made steps: the job's time limit is not too short
};

/// The end of a training.
struct Trained {
  int exit_code = 0;
  std::string divergence{};  ///< On workers: what diverged where; empty: nothing did
};

/// Collective. Trains. @throws AgreedFailure for the user's mistakes, on every rank
Trained train(const Training& training, const mpi::Communicator& world, FailureHandler& failure);

/// Collective. `flotilla train`. Returns the exit code. Before training starts it throws only exceptions that
/// every rank throws.
int train(const TrainArguments& arguments, const mpi::Communicator& world, FailureHandler& failure);

}  // namespace flotilla
