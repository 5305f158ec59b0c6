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

/// The most bytes that the first and the last rank of a training held.
std::array<std::int64_t, 2> most_bytes(const std::string& strategy, int ranks) {
  const TemporaryFolder folder;
  write_file(folder.path("deck.toml"),
             "[model]\nwidths = [16]\nclasses = 2\n[data]\nkind = \"random\"\nshape = [6]\n"
             "train.samples = 4096\n[train]\nsteps = 12\nbatch_size = 4\n[schedule]\nlearning_rate = 0.1\n"
             "[device]\nthreads = 1\n[checkpoint]\nevery = 6\n[strategy]\n" +
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

TEST(RankMemory, GrowsByAtMostAKilobyteForEachRankOfTheJob) {
  // A server keeps a place for the requests of each worker besides.
  for (const std::string strategy : {"kind = \"all-reduce\"\n", "kind = \"local-sgd\"\nperiod = 4\n"}) {
    const auto few = most_bytes(strategy, 8);
    const auto many = most_bytes(strategy, 32);
    for (const std::size_t i : {0, 1}) {
      const std::int64_t more = many[i] - few[i];
      EXPECT_LE(more, 1000 * (32 - 8)) << (i == 0 ? "first" : "last") << " rank, " << strategy << few[i];
      RecordProperty("bytes_for_each_rank", static_cast<int>(more / (32 - 8)));
    }
  }
}

}  // namespace
}  // namespace flotilla::test
