// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <future>
#include <regex>
#include <string>
#include <vector>

#include "tests/mpi/launched_job.hpp"

// A rank that leaves out, doubles or swaps a collective call is named, with the others and both calls.

namespace flotilla::test {
namespace {

constexpr const char* subjects[] = {"communicator", "mpi",   "slices",    "shared-memory",
                                    "hierarchical", "lanes", "consensus", "push-pull"};

/// The jobs mostly wait: several at a time.
void launch_all(const std::vector<std::string>& jobs,
                const std::function<void(const std::string& job, const Outcome&)>& look) {
  constexpr std::size_t at_a_time = 4;
  for (std::size_t begin = 0; begin < jobs.size(); begin += at_a_time) {
    std::vector<std::future<Outcome>> outcomes;
    for (std::size_t i = begin; i < std::min(jobs.size(), begin + at_a_time); ++i)
      outcomes.push_back(
          std::async(std::launch::async, [&jobs, i] { return launch(MISMATCHED_JOB, 3, jobs[i]); }));
    for (std::size_t i = 0; i < outcomes.size(); ++i) look(jobs[begin + i], outcomes[i].get());
  }
}

/// "mismatched collective calls: rank 0, rank 1 in … (step 5, …/mismatched_job.cpp:40); rank 2 in … (step 5,
/// …/mismatched_job.cpp:41)"
void expect_both_named(const std::string& job, const Outcome& outcome, const std::string& first_step) {
  const std::string call =
      "rank [012][^;]* in [^;]* \\(step " + first_step + ", \\S*mismatched_job\\.cpp:\\d+\\)";
  const std::string end = "rank [012][^;]* in [^;]*mismatched_job\\.cpp:\\d+\\)";
  const std::regex sentence("flotilla: (mismatched|deadlock of) collective calls: " + call + "; " + end);
  EXPECT_TRUE(std::regex_search(outcome.output, sentence)) << job << "\n" << outcome.output;
  EXPECT_TRUE(outcome.output.find("rank 2") != std::string::npos) << job << "\n" << outcome.output;
  EXPECT_TRUE(outcome.exit_code == 3 || outcome.exit_code == 4) << job << "\n" << outcome.output;
}

TEST(MismatchedJob, IsNamedInTheStepWhereCallsAreChecked) {
  std::vector<std::string> jobs;
  for (const std::string subject : subjects)
    for (const std::string mistake : {"leaves-out", "doubles", "swaps"})
      jobs.push_back(subject + " " + mistake + " checked");

  launch_all(jobs,
             [](const std::string& job, const Outcome& outcome) { expect_both_named(job, outcome, "5"); });
}

TEST(MismatchedJob, IsNamedOnceARankHasWaitedForASecond) {
  std::vector<std::string> jobs;
  for (const std::string subject : subjects) jobs.push_back(subject + " leaves-out unchecked");
  jobs.push_back("communicator leaves unchecked");  // the end of the run

  launch_all(jobs, [](const std::string& job, const Outcome& outcome) {
    expect_both_named(job, outcome, "([5-9]|10)");
    EXPECT_EQ(outcome.exit_code, 3) << job;
  });
}

TEST(MismatchedJob, IsNotSuspectedWhereRanksAreLateOrStopped) {
  std::vector<std::string> jobs;
  for (const std::string subject : subjects) {
    jobs.push_back(subject + " none checked");
    jobs.push_back(subject + " late unchecked");
  }
  jobs.push_back("communicator late checked");
  jobs.push_back("communicator stopped unchecked");

  launch_all(jobs, [](const std::string& job, const Outcome& outcome) {
    EXPECT_EQ(outcome.exit_code, 0) << job << "\n" << outcome.output;
  });
}

}  // namespace
}  // namespace flotilla::test
