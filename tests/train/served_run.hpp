// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/commands/job_scopes.hpp"
#include "tests/train/training_run.hpp"

namespace flotilla::test {

/// Keys of a run with one server, whose parameters are cut into blocks, and `more`.
inline Texts served(const Texts& more) {
  return Texts{"strategy.kind=parameter-server", "roles.kind=ratio", "roles.servers=1",
               "server.min_block_size=64"} +
         more;
}

/// Keys, to be told where a test fails.
inline std::string text_of(const Texts& keys) {
  std::string text;
  for (const std::string& key : keys) text += key + " ";
  return text;
}

/// Calls body(run) with a TrainingRun on the workers of MPI_COMM_WORLD, while the others serve if the
/// overrides ask for servers. Collective.
template <class Body>
void with_run(const std::string& deck_text, const Texts& overrides, const Body& body) {
  const mpi::Communicator all = mpi::Communicator::world();
  const LoadedDeck deck =
      load_deck({.path = "test.toml", .text = deck_text, .overrides = TrainingRun::with_defaults(overrides)});
  FailureHandler failure(all.rank(), all.size(), "test");
  mpi::Watchdog watchdog(0.0, nullptr);
  JobRoles roles(deck.config, all, failure, watchdog);
  if (roles.is_server()) {
    roles.serve();
    return;
  }
  TrainingRun run(roles.workers().collective_clone(), deck_text, overrides, nullptr, roles.servers());
  body(run);
}

}  // namespace flotilla::test
