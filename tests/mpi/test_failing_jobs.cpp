// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace {

struct Outcome {
  int exit_code = -1;
  std::string output;
};

/// Runs failing_job on `ranks` ranks to its end. A job that hangs is ended by CTest's limit.
Outcome launch(int ranks, const std::string& scenario, const std::string& kind, const std::string& mark) {
  const std::string command = std::string(MPIEXEC) + " -n " + std::to_string(ranks) + " " FAILING_JOB " " +
                              scenario + " " + kind + " " + mark + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  Outcome outcome;
  std::array<char, 4096> buffer;
  for (std::size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    outcome.output.append(buffer.data(), got);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

/// Processes whose command line has `mark`.
int processes_with(const std::string& mark) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string line(std::istreambuf_iterator<char>(file), {});
    found += line.find(mark) != std::string::npos ? 1 : 0;
  }
  return found;
}

struct Case {
  const char* scenario;
  const char* kind;
  int exit_code;
  const char* says;
};

class FailingJob : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(
    Scenarios, FailingJob,
    testing::Values(
        Case{"fine", "shared-memory", 0, ""}, Case{"outside", "mpi", 2, "the last rank gives up"},
        Case{"outside", "shared-memory", 2, "the last rank gives up"},
        Case{"in-flight", "mpi", 2, "the last rank gives up"},
        Case{"in-flight", "shared-memory", 2, "the last rank gives up"},
        Case{"outside", "float16", 2, "the last rank gives up"},
        Case{"outside", "hierarchical", 2, "the last rank gives up"},
        Case{"in-lanes", "hierarchical", 2, "the last rank gives up"},
        Case{"in-lanes", "staged", 2, "the last rank gives up"},
        Case{"in-flight", "staged", 2, "the last rank gives up"}, Case{"in-thread", "shared-memory", 4, ""},
        Case{"hang", "float16", 3, "all-reduce of bucket 0, step 1; not there: rank 2"},
        Case{"hang", "hierarchical", 3, "flotilla: nothing has moved"},
        Case{"hang", "mpi", 3, "flotilla: nothing has moved"}, Case{"leave", "mpi", 9, ""},
        Case{"leave", "shared-memory", 9, ""}, Case{"leave", "hierarchical", 9, ""},
        Case{"elsewhere", "mpi", 3,
             "all-reduce of bucket 0, step 1; rank 2 on h2 is elsewhere: computing, step 1, for "},
        Case{"stopped", "mpi", 3,
             "all-reduce of bucket 0, step 1; rank 2 on h2 does not answer; the others wait in the "
             "same place"},
        Case{"stopped", "hierarchical", 3, "rank 2 on h2 does not answer"},
        Case{"hang", "shared-memory", 3, "all-reduce of bucket 0, step 1; not there: rank 2"}));

TEST_P(FailingJob, EndsWithItsExitCodeAndLeavesNoProcess) {
  const Case& expected = GetParam();
  const std::string mark = "mark-" + std::to_string(getpid()) + "-" + expected.scenario + "-" + expected.kind;

  const Outcome outcome = launch(3, expected.scenario, expected.kind, mark);

  EXPECT_EQ(outcome.exit_code, expected.exit_code) << outcome.output;
  EXPECT_NE(outcome.output.find(expected.says), std::string::npos) << outcome.output;
  // mpirun may return a moment before the last of the processes that it killed is gone.
  while (processes_with(mark) > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

}  // namespace
