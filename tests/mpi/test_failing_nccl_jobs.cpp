// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/mpi/launched_job.hpp"
#include "tests/support/messages.hpp"

namespace {

using flotilla::test::launch;
using flotilla::test::mentions;
using flotilla::test::Outcome;

constexpr const char* aborted = "fake NCCL: aborted";

/// Expects that the job `way` ends with the error that NCCL reports, naming what it did at that time.
void expect_broken_network(const std::string& way, const std::string& activity) {
  const Outcome outcome = launch(FAILING_NCCL_JOB, 2, way);
  const std::string said =
      "NCCL: remote process exited or there was a network error: the fake network broke; " + activity;

  EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
  EXPECT_TRUE(mentions(outcome.output, {said, aborted}));
}

TEST(FailingNcclJob, GivesUpWhatIsUnderWayWhereARankThrows) {
  const Outcome outcome = launch(FAILING_NCCL_JOB, 2, "give-up");

  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_TRUE(mentions(outcome.output, {"the last rank gives up", aborted}));
}

TEST(FailingNcclJob, EndsWhereNcclTellsOfAnErrorThatNoCallReturned) {
  expect_broken_network("network", "all-reduce of bucket 0, step 1");
}

TEST(FailingNcclJob, EndsWhereTheNetworkOfAGatherBreaks) {
  expect_broken_network("norms", "synchronised batch norm among the workers, step 1");
}

TEST(FailingNcclJob, AsksNoCommunicatorThatIsGivenUp) {
  const Outcome outcome = launch(FAILING_NCCL_JOB, 2, "asked");

  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_TRUE(mentions(outcome.output, {aborted}));
  EXPECT_EQ(outcome.output.find("is used that was given up"), std::string::npos) << outcome.output;
}

TEST(FailingNcclJob, NamesARankThatLeavesACallOut) {
  const Outcome checked = launch(FAILING_NCCL_JOB, 2, "leaves-out checked");
  const Outcome waited = launch(FAILING_NCCL_JOB, 2, "leaves-out unchecked");

  EXPECT_EQ(checked.exit_code, 4) << checked.output;
  EXPECT_TRUE(
      mentions(checked.output,
               {"mismatched collective calls: rank 0 in NCCL all-reduce of 1000 float values (step 5, "}));
  EXPECT_EQ(waited.exit_code, 3) << waited.output;
  EXPECT_TRUE(
      mentions(waited.output,
               {"mismatched collective calls: rank 0 on h0 in NCCL all-reduce of 1000 float values (step "}));
}

}  // namespace
