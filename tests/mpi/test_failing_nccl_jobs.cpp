// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/mpi/launched_job.hpp"

namespace {

using flotilla::test::launch;
using flotilla::test::Outcome;

constexpr const char* aborted = "fake NCCL: aborted";

TEST(FailingNcclJob, GivesUpWhatIsUnderWayWhereARankThrows) {
  const Outcome outcome = launch(FAILING_NCCL_JOB, 2, "give-up");

  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_NE(outcome.output.find("the last rank gives up"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find(aborted), std::string::npos) << outcome.output;
}

TEST(FailingNcclJob, EndsWhereNcclTellsOfAnErrorThatNoCallReturned) {
  const Outcome outcome = launch(FAILING_NCCL_JOB, 2, "network");

  EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
  EXPECT_NE(outcome.output.find("NCCL: remote process exited or there was a network error: the fake network "
                                "broke; all-reduce of bucket 0, step 1"),
            std::string::npos)
      << outcome.output;
  EXPECT_NE(outcome.output.find(aborted), std::string::npos) << outcome.output;
}

TEST(FailingNcclJob, EndsWhereTheNetworkOfAGatherBreaks) {
  const Outcome outcome = launch(FAILING_NCCL_JOB, 2, "gathers");

  EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
  EXPECT_NE(outcome.output.find("NCCL: remote process exited or there was a network error: the fake network "
                                "broke; synchronised batch norm among the workers, step 1"),
            std::string::npos)
      << outcome.output;
  EXPECT_NE(outcome.output.find(aborted), std::string::npos) << outcome.output;
}

TEST(FailingNcclJob, AsksNoCommunicatorThatIsGivenUp) {
  const Outcome outcome = launch(FAILING_NCCL_JOB, 2, "asked");

  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_NE(outcome.output.find(aborted), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("is used that was given up"), std::string::npos) << outcome.output;
}

TEST(FailingNcclJob, NamesARankThatLeavesACallOut) {
  const Outcome checked = launch(FAILING_NCCL_JOB, 2, "leaves-out checked");
  const Outcome waited = launch(FAILING_NCCL_JOB, 2, "leaves-out unchecked");

  EXPECT_EQ(checked.exit_code, 4) << checked.output;
  EXPECT_NE(checked.output.find("mismatched collective calls: rank 0 in NCCL all-reduce of 1000 float "
                                "values (step 5, "),
            std::string::npos)
      << checked.output;
  EXPECT_EQ(waited.exit_code, 3) << waited.output;
  EXPECT_NE(waited.output.find("mismatched collective calls: rank 0 on h0 in NCCL all-reduce of 1000 "
                               "float values (step "),
            std::string::npos)
      << waited.output;
}

}  // namespace
