// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

// Jobs in which a value of the last worker's model changes after two steps.

namespace {

struct Outcome {
  int exit_code = -1;
  std::string output;
};

Outcome launch(int ranks, const std::string& added, const std::string& keys) {
  const std::string command =
      std::string(MPIEXEC) + " -n " + std::to_string(ranks) + " " BAD_MEMORY_JOB " " + added + keys + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  Outcome outcome;
  std::array<char, 4096> buffer;
  for (std::size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    outcome.output.append(buffer.data(), got);
  outcome.exit_code = WEXITSTATUS(pclose(pipe));
  return outcome;
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
  const Outcome job = launch(GetParam(), "0.5", " train.steps=20 run.agreement_every=3");

  EXPECT_EQ(job.exit_code, 4) << job.output;
  const std::string line = line_of(job.output);
  EXPECT_NE(line.find("flotilla: rank " + last() + " on test, step 2: holds another"), std::string::npos)
      << job.output;
  EXPECT_NE(line.find("after step 3: the first tensor that differs is "), std::string::npos) << job.output;
}

const std::string local_sgd = " strategy.kind=local-sgd strategy.period=1000000 train.steps=1000000";

TEST_P(BadMemory, EndsAJobWhoseWorkersAreApartByTheRankThatDiverges) {
  const Outcome job = launch(GetParam(), "nan", local_sgd + " run.log_every=1000000 checkpoint.every_s=0");

  EXPECT_EQ(job.exit_code, 2) << job.output;
  const std::string line = line_of(job.output);
  EXPECT_NE(line.find("flotilla: rank " + last() + " on test, step 2: the loss is NaN after step 3 "),
            std::string::npos)
      << job.output;
  EXPECT_NE(line.find(" is not finite; training diverged"), std::string::npos) << job.output;
}

TEST_P(BadMemory, EndsAJobNamingTheRankThatDivergedWhereAllWorkersMeet) {
  const Outcome job = launch(GetParam(), "nan", local_sgd + " run.log_every=3");

  EXPECT_EQ(job.exit_code, 2) << job.output;
  const std::string line = line_of(job.output);
  EXPECT_NE(line.find("flotilla: rank 0 on test, step 2: the loss is NaN after step 3 "), std::string::npos)
      << job.output;
  EXPECT_NE(line.find(" is not finite on rank " + last() + "; training diverged"), std::string::npos)
      << job.output;
}

}  // namespace
