// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "src/job/failure.hpp"
#include "src/job/same_on_all_ranks.hpp"

namespace flotilla {
namespace {

Config config_with(const std::vector<std::string>& overrides) {
  return load_deck(
             {.path = "deck.toml",
              .text =
                  "[model]\nwidths = [8]\nclasses = 3\n[data]\nkind = \"random\"\nshape = [4]\n"
                  "train.samples = 8\n[train]\nbatch_size = 2\nsteps = 1\n[schedule]\nlearning_rate = 0.1\n",
              .overrides = overrides})
      .config;
}

/// What all ranks are told where rank 1 has this override and the others have not.
std::string told_of(const std::string& on_rank_1) {
  const auto world = mpi::Communicator::world();
  const Config config = config_with(world.rank() == 1 ? std::vector{on_rank_1} : std::vector<std::string>{});
  try {
    check_same_deck(config, world);
  } catch (const AgreedFailure& failure) {
    EXPECT_EQ(failure.exit_code, exit_user_error);
    return failure.what();
  }
  return "nothing";
}

TEST(SameDeck, NamesTheKeyOfWhichARankHasAnotherValue) {
  for (const auto& [override, differs] :
       {std::pair{"run.seed=3", "rank 1 has run.seed = 3, and rank 0 has run.seed = "},
        {"optimizer.kind=adam", "rank 1 has optimizer.kind = \"adam\", and rank 0 has optimizer.kind = \""},
        {"train.steps=7", "rank 1 has train.steps = 7, and rank 0 has train.steps = 1"},
        {"train.label_smoothing=0.25", "rank 1 has train.label_smoothing = 0.25, and rank 0 has "}}) {
    const std::string told = told_of(override);
    EXPECT_NE(told.find(differs), std::string::npos) << told;
  }
}

TEST(SameDeck, LeavesPathsAndThreadsToEachHost) {
  for (const char* override : {"data.threads=3", "run.output=/dev/shm/a", "device.threads=2"})
    EXPECT_EQ(told_of(override), "nothing") << override;
}

}  // namespace
}  // namespace flotilla
