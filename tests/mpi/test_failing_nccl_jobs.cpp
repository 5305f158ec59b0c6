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

}  // namespace
