// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <stdexcept>

#include "tests/faults/failures.hpp"
#include "tests/runs/program.hpp"

// A call fails on one rank. sweep_failures tries them all.

namespace flotilla::test {
namespace {

struct Case {
  const char* way;
  FailingCall call;
  int exit_code;
  const char* says;
};

std::ostream& operator<<(std::ostream& to, const Case& one) {
  return to << one.way << ", " << one.call.text();
}

class FailureOnOneRank : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(
    Calls, FailureOnOneRank,
    testing::Values(
        // The thread that listens for signals, started before MPI.
        Case{"all-reduce mpi", {.rank = 0, .word = "thread", .number = 1}, 3, "no thread can be started: "},
        Case{"all-reduce shared",
             {.rank = 1, .word = "open", .about = "/flotilla-"},
             2,
             "cannot share memory: a file in /dev/shm cannot be opened: "},
        // HDF5 never manages to close its file: the run goes on and ends normally.
        Case{"local-sgd",
             {.rank = 0, .word = "write", .about = "memfd"},
             0,
             "the checkpoint of step 4 was not saved"},
        Case{"local-sgd",
             {.rank = 1, .word = "open", .about = "worker-0001"},
             0,
             "the checkpoint of step 4 was not saved"},
        // In the exchange between the saving workers: the job ends instead of reporting a failed save.
        Case{"local-sgd", {.rank = 1, .word = "message", .about = "MPI_Ibarrier"}, 3, "MPI_Ibarrier failed"},
        Case{"server sync", {.rank = 2, .word = "memory", .number = 1}, 3, "out of memory"},
        Case{"server rows",
             {.rank = 2, .word = "sync", .about = "server-0001"},
             0,
             "the checkpoint of step 4 was not saved"}));

TEST_P(FailureOnOneRank, IsToldAndLosesNothing) {
  const TemporaryFolder folder;
  const std::string clicks = folder.path("clicks.tsv");
  ASSERT_EQ(run({FLOTILLA_EXECUTABLE, "make-data", "criteo", "--rows", "2000", "--output", clicks}).exit_code,
            0);
  const std::vector<Way> ways = all_ways(clicks);
  const auto way = std::ranges::find(ways, GetParam().way, &Way::name);
  ASSERT_NE(way, ways.end());
  const FailureSweep failures(*way, folder.path("runs"));

  const Attempt attempt = failures.fail(FailureSweep::Phase::start, GetParam().call);

  EXPECT_TRUE(attempt.fired);
  EXPECT_EQ(attempt.wrong, "") << attempt.errors;
  EXPECT_EQ(attempt.exit_code, GetParam().exit_code) << attempt.errors;
  EXPECT_NE(attempt.said.find(GetParam().says), std::string::npos) << attempt.errors;
}

}  // namespace
}  // namespace flotilla::test
