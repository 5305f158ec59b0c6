// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/observe/failure_report.hpp"
#include "tests/observe/read_back.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

const Failure failure{
    .rank = 3, .ranks = 4, .host = "node7", .step = 120, .what = "MPI_Allreduce failed", .exit_code = 3};

TEST(FailureLine, NamesRankHostAndStep) {
  EXPECT_EQ(failure_line(failure), "flotilla: rank 3 on node7, step 120: MPI_Allreduce failed");
}

TEST(FailureLine, LeavesOutTheStepBeforeTheFirst) {
  EXPECT_EQ(failure_line({.rank = 1, .ranks = 2, .host = "node7", .what = "no"}),
            "flotilla: rank 1 on node7: no");
}

TEST(FailureLine, IsShortForOneRankBeforeTheFirstStep) {
  EXPECT_EQ(failure_line({.host = "node7", .what = "the deck has 3 mistakes"}),
            "flotilla: the deck has 3 mistakes");
}

TEST(ReportFailure, WritesTheLineAndTheFile) {
  const test::TemporaryFolder folder;
  testing::internal::CaptureStderr();

  report_failure(failure, folder.path());

  EXPECT_EQ(testing::internal::GetCapturedStderr(), failure_line(failure) + "\n");
  const auto json = nlohmann::json::parse(text_of(folder.path("failure.json")));
  EXPECT_EQ(json["rank"], 3);
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["host"], "node7");
  EXPECT_EQ(json["step"], 120);
  EXPECT_EQ(json["what"], "MPI_Allreduce failed");
  EXPECT_EQ(json["exit_code"], 3);
  EXPECT_GT(json["time"], 1.7e9);
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(ReportFailure, WritesTheLineEvenIfTheFileCannotBeWritten) {
  testing::internal::CaptureStderr();

  report_failure(failure, "/proc/nowhere");

  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(
      text.find(failure_line(failure) + "\nflotilla: cannot make the folder of '/proc/nowhere/failure.json'"),
      0U)
      << text;
}

TEST(ReportFailure, ShowsNoControlsThatATerminalWouldObey) {
  testing::internal::CaptureStderr();

  report_failure({.what = "cannot read '\033]0;x\a'"}, "");

  EXPECT_EQ(testing::internal::GetCapturedStderr(), "flotilla: cannot read '?]0;x?'\n");
}

TEST(ReportFailure, WritesNoFileWithoutAFolder) {
  testing::internal::CaptureStderr();

  report_failure(failure, "");

  EXPECT_EQ(testing::internal::GetCapturedStderr(), failure_line(failure) + "\n");
}

}  // namespace
}  // namespace flotilla
