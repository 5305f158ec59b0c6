// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/runs/program.hpp"

// What a rank holds for the other ranks of the job, without MPI's own memory, which operator new does not
// give out.

namespace flotilla::test {
namespace {

/// The bytes that the first and the last rank of a training hold from step to step.
std::array<std::int64_t, 2> held_bytes(const std::string& strategy, int ranks) {
  const TemporaryFolder folder;
  // No state is kept meanwhile: a thread that writes one keeps its stack for signal handlers for a
  // time that differs from run to run.
  write_file(folder.path("deck.toml"),
             "[model]\nwidths = [16]\nclasses = 2\n[data]\nkind = \"random\"\nshape = [6]\n"
             "train.samples = 4096\n[train]\nsteps = 24\nbatch_size = 4\n[schedule]\nlearning_rate = 0.1\n"
             "[device]\nthreads = 1\n[run]\ncheck_network = false\n[checkpoint]\nevery = 0\nresident = "
             "false\n[strategy]\n" +
                 strategy);
  const std::string counted = folder.path("bytes");
  std::vector<std::string> command = with_variables(
      flotilla_command(ranks, {"train", folder.path("deck.toml"), "run.output=" + folder.path("run")}),
      {"COUNTED_BYTES=" + counted});
  std::ranges::replace(command, std::string(FLOTILLA_EXECUTABLE), std::string(COUNTED_FLOTILLA));
  const Result result = run(command);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  return {std::stoll(read_file(counted + ".0")),
          std::stoll(read_file(counted + "." + std::to_string(ranks - 1)))};
}

void expect_a_kilobyte_for_each_rank(const std::string& strategy) {
  constexpr int few_ranks = 8;
  constexpr int many_ranks = 32;
  const auto few = held_bytes(strategy, few_ranks);
  const auto many = held_bytes(strategy, many_ranks);
  for (const std::size_t i : {0, 1}) {
    const std::string rank = i == 0 ? "first" : "last";
    const std::int64_t each = (many[i] - few[i]) / (many_ranks - few_ranks);
    EXPECT_LE(each, 1000) << rank << " rank: " << few[i] << ", " << many[i];
    testing::Test::RecordProperty(rank + "_rank_bytes_for_each", static_cast<int>(each));
  }
}

TEST(RankMemory, OfAllReducesGrowsByAtMostAKilobyteForEachRank) {
  expect_a_kilobyte_for_each_rank("kind = \"all-reduce\"\n");
}

TEST(RankMemory, OfLocalSgdGrowsByAtMostAKilobyteForEachRank) {
  expect_a_kilobyte_for_each_rank("kind = \"local-sgd\"\nperiod = 4\n");
}

// The first rank is the server, the last one a worker.
TEST(RankMemory, OfServersGrowsByAtMostAKilobyteForEachRank) {
  expect_a_kilobyte_for_each_rank("kind = \"parameter-server\"\n");
}

}  // namespace
}  // namespace flotilla::test
