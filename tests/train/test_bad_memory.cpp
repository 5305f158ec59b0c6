// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/mpi/launched_job.hpp"
#include "tests/support/messages.hpp"

// Jobs in which a value of the last worker's model changes after two steps.

namespace flotilla::test {
namespace {

/// `added` to that value, and what the deck has in addition to its own keys.
Outcome launch_bad_memory(int ranks, const std::string& added, const std::string& keys) {
  return launch(BAD_MEMORY_JOB, ranks, added + keys);
}

/// The only line that begins with "flotilla: ", if there is one only.
std::string line_of(const std::string& output) {
  const std::size_t line = output.find("flotilla: ");
  if (line == std::string::npos || output.find("flotilla: ", line + 1) != std::string::npos) return {};
  return output.substr(line, output.find('\n', line) - line);
}

class BadMemory : public testing::TestWithParam<int> {
 protected:
  static std::string last() { return std::to_string(GetParam() - 1); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, BadMemory, testing::Values(2, 3, 4));

TEST_P(BadMemory, EndsAJobByTheRankThatDiffers) {
  const Outcome job = launch_bad_memory(GetParam(), "0.5", " train.steps=20 run.agreement_every=3");

  EXPECT_EQ(job.exit_code, 4) << job.output;
  const std::string line = line_of(job.output);
  EXPECT_TRUE(mentions(line, {"flotilla: rank " + last() + " on test, step 2: holds another",
                              "after step 3: the first tensor that differs is "}))
      << job.output;
}

const std::string local_sgd = " strategy.kind=local-sgd strategy.period=1000000 train.steps=1000000";

TEST_P(BadMemory, EndsAJobWhoseWorkersAreApartByTheRankThatDiverges) {
  const Outcome job =
      launch_bad_memory(GetParam(), "nan", local_sgd + " run.log_every=1000000 checkpoint.every_s=0");

  EXPECT_EQ(job.exit_code, 2) << job.output;
  const std::string line = line_of(job.output);
  EXPECT_TRUE(mentions(line, {"flotilla: rank " + last() + " on test, step 2: the loss is NaN after step 3 ",
                              " is not finite; training diverged"}))
      << job.output;
}

TEST_P(BadMemory, EndsAJobNamingTheRankThatDivergedWhereAllWorkersMeet) {
  const Outcome job = launch_bad_memory(GetParam(), "nan", local_sgd + " run.log_every=3");

  EXPECT_EQ(job.exit_code, 2) << job.output;
  const std::string line = line_of(job.output);
  EXPECT_TRUE(mentions(line, {"flotilla: rank 0 on test, step 2: the loss is NaN after step 3 ",
                              " is not finite on rank " + last() + "; training diverged"}))
      << job.output;
}

}  // namespace
}  // namespace flotilla::test
