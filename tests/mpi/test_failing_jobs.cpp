// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/mpi/launched_job.hpp"
#include "tests/support/messages.hpp"

namespace {

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
        Case{"hang", "hierarchical", 3,
             "step 1; not there: rank 2; here a thread waits in all-reduce in a tree of "},
        Case{"hang", "mpi", 3, "all-reduce of bucket 0, step 1; here a thread waits in all-reduce of "},
        Case{"leave", "mpi", 9, ""}, Case{"leave", "shared-memory", 9, ""},
        Case{"leave", "hierarchical", 9, ""},
        Case{"elsewhere", "mpi", 3,
             "all-reduce of bucket 0, step 1; rank 2 on h2 is elsewhere: computing, step 1, for "},
        Case{"stopped", "mpi", 3,
             "all-reduce of bucket 0, step 1; rank 2 on h2 does not answer; the others wait in the same "
             "place"},
        Case{"disk", "mpi", 0, ""},
        Case{"no-disk", "mpi", 3,
             "did not reach the agreed stop within 1.5 s: all-reduce of bucket 0, step 1; leaving without "
             "saving; rank 2 on h2 "},
        Case{"disk-stopped", "mpi", 3, "leaving without saving; rank 1 on h1 does not answer"},
        Case{"stopped", "hierarchical", 3, "rank 2 on h2 does not answer"},
        Case{"hang", "shared-memory", 3, "all-reduce of bucket 0, step 1; not there: rank 2"}));

TEST_P(FailingJob, EndsWithItsExitCodeAndLeavesNoProcess) {
  const Case& expected = GetParam();

  const flotilla::test::Outcome outcome =
      flotilla::test::launch(FAILING_JOB, 3, std::string(expected.scenario) + " " + expected.kind);

  EXPECT_EQ(outcome.exit_code, expected.exit_code) << outcome.output;
  EXPECT_TRUE(flotilla::test::mentions(outcome.output, {expected.says}));
}

TEST(FailingJobs, PrintTheStackOfTheRankThatIsElsewhere) {
  const flotilla::test::Outcome outcome = flotilla::test::launch(FAILING_JOB, 3, "elsewhere mpi");

  EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
  EXPECT_TRUE(flotilla::test::mentions(
      outcome.output, {"flotilla: stack of the training thread of rank 2 on h2:\n", "nanosleep"}));
}

}  // namespace
