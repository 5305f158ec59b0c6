// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>

#include "tests/runs/program.hpp"

// Tests a training on cores that are not its own. None of these tests measures time.

namespace flotilla::test {
namespace {

/// The settings that GNU OpenMP says it has, each time that it is loaded, for a name as GOMP_SPINCOUNT.
std::vector<std::string> settings(const std::vector<std::string>& environment, const std::string& name) {
  TemporaryFolder folder;
  std::vector<std::string> command = {
      "env", "-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT", "OMP_DISPLAY_ENV=verbose"};
  command.insert(command.end(), environment.begin(), environment.end());
  command.insert(command.end(), {FLOTILLA_EXECUTABLE, "train", source_path("inputs/mlp_random.toml"),
                                 "train.steps=2", "run.output=" + folder.path("run")});
  const Result result = run(command);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  std::vector<std::string> found;
  const std::string before = name + " = '";
  for (std::size_t at = result.errors.find(before); at != std::string::npos;
       at = result.errors.find(before, at + 1)) {
    const std::size_t begin = at + before.size();
    found.push_back(result.errors.substr(begin, result.errors.find('\'', begin) - begin));
  }
  return found;
}

TEST(SharedCores, ThreadsThatWaitSpinBrieflyWhereTheUserSaysNothing) {
  const std::vector<std::string> spins = settings({}, "GOMP_SPINCOUNT");
  if (spins.empty()) GTEST_SKIP() << "not GNU OpenMP";

  ASSERT_EQ(spins.size(), 2U);  // restarted once
  EXPECT_GT(std::atol(spins[1].c_str()), 0);
  EXPECT_LT(std::atol(spins[1].c_str()), std::atol(spins[0].c_str()));
}

TEST(SharedCores, TheUsersOwnPolicyStays) {
  if (settings({}, "GOMP_SPINCOUNT").empty()) GTEST_SKIP() << "not GNU OpenMP";

  EXPECT_EQ(settings({"GOMP_SPINCOUNT=77"}, "GOMP_SPINCOUNT"), std::vector<std::string>{"77"});
  EXPECT_EQ(settings({"OMP_WAIT_POLICY=active"}, "OMP_WAIT_POLICY"), std::vector<std::string>{"ACTIVE"});
}

TEST(SharedCores, AProgramStartedThroughTheLoaderRunsAndSaysThatThreadsWillSpin) {
  const std::string loader = "/lib64/ld-linux-x86-64.so.2";
  if (!std::filesystem::exists(loader)) GTEST_SKIP() << "another loader";
  TemporaryFolder folder;

  const Result result =
      run({"env", "-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT", loader, FLOTILLA_EXECUTABLE, "train",
           source_path("inputs/mlp_random.toml"), "train.steps=2", "run.output=" + folder.path("run")});

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.errors.find("set GOMP_SPINCOUNT="), std::string::npos) << result.errors;
}

/// Binds this process, and what it starts, to one of its processors.
class OnOneProcessor {
 public:
  OnOneProcessor() {
    sched_getaffinity(0, sizeof(before_), &before_);
    std::size_t first = 0;
    while (!CPU_ISSET(first, &before_)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  OnOneProcessor(const OnOneProcessor&) = delete;
  OnOneProcessor& operator=(const OnOneProcessor&) = delete;
  ~OnOneProcessor() { sched_setaffinity(0, sizeof(before_), &before_); }

 private:
  cpu_set_t before_{};
};

TEST(SharedCores, ARunBesideABusyProcessSaysSo) {
  if (!std::filesystem::exists("/proc/self/schedstat")) GTEST_SKIP() << "this kernel does not tell";
  TemporaryFolder folder;
  const OnOneProcessor bound;
  const Program busy({"sh", "-c", "while :; do :; done"});

  const Result result =
      run({FLOTILLA_EXECUTABLE, "train", source_path("inputs/mlp_random.toml"), "train.steps=5000",
           "run.log_every=500", "run.output=" + folder.path("run"), "--verbose"});

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(count(result.output, "processors   were taken"), 1) << result.output;
  EXPECT_EQ(count(result.output, "processors   in the whole run were taken"), 1) << result.output;
  EXPECT_NE(result.output.find("stop other programs there"), std::string::npos) << result.output;
}

}  // namespace
}  // namespace flotilla::test
