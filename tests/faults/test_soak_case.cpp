// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/faults/faulted_run.hpp"
#include "tests/faults/soak_case.hpp"

namespace flotilla::test {
namespace {

TEST(SoakCase, FollowsFromItsSeed) {
  const std::vector<Way> ways = all_ways("clicks.tsv");
  for (std::uint64_t seed = 1; seed < 200; ++seed) {
    const SoakCase one = draw_case(seed, ways, 3);
    const SoakCase again = draw_case(seed, ways, 3);
    EXPECT_EQ(one.name() + one.save, again.name() + again.save);
    EXPECT_EQ(one.arguments(), again.arguments());
    ASSERT_EQ(one.faults.size(), again.faults.size());
    for (std::size_t i = 0; i < one.faults.size(); ++i)
      EXPECT_EQ(one.faults[i].text(), again.faults[i].text());
  }
}

TEST(SoakCase, HasAllKindsWaysRanksAndHosts) {
  const std::vector<Way> ways = all_ways("clicks.tsv");
  std::map<std::string, int> kinds;
  std::set<std::string> names;
  std::set<int> ranks;
  std::set<int> hosts;
  for (std::uint64_t seed = 1; seed < 5000; ++seed) {
    const SoakCase one = draw_case(seed, ways, 3);
    for (const Fault& fault : one.faults) ++kinds[fault.kind()];
    names.insert(one.way.name);
    ranks.insert(one.ranks);
    hosts.insert(one.hosts);
  }
  EXPECT_EQ(names.size(), ways.size());
  EXPECT_EQ(ranks, (std::set{2, 3, 4, 5, 6}));
  EXPECT_EQ(hosts, (std::set{1, 2, 3}));
  for (const char* kind : {"kill rank",
                           "kill mpirun",
                           "end mpirun",
                           "die at call",
                           "stop rank",
                           "pause rank",
                           "fill disk",
                           "keep disk full",
                           "fill /dev/shm",
                           "turn clock",
                           "two at once",
                           "call fails: memory",
                           "call fails: map",
                           "call fails: thread",
                           "call fails: EIO",
                           "call fails: ESTALE",
                           "call fails: short",
                           "ask to stop, start",
                           "ask to stop, staging",
                           "ask to stop, training",
                           "ask to stop, validation",
                           "ask to stop, saving",
                           "end ranks, start",
                           "end ranks, staging",
                           "end ranks, training",
                           "end ranks, validation",
                           "end ranks, saving"})
    EXPECT_GE(kinds[kind], 5) << kind;
}

Result ended(int exit_code, const std::string& errors = "") {
  return {.exit_code = exit_code, .output = "starting\nepoch 1 of 2", .errors = errors};
}

TEST(CheckEnd, FindsCrashesAndRunsThatEndTooLate) {
  const Fault kill{.harm = Harm::kill_rank};
  EXPECT_EQ(check_end(kill, true, ended(137), 2.0, 4), "");
  EXPECT_NE(check_end(kill, true, ended(139), 2.0, 4), "");
  EXPECT_NE(check_end(kill, true, ended(137), 9.5, 4), "");
  EXPECT_NE(check_end(kill, true, ended(0), 2.0, 4), "");
}

TEST(CheckEnd, WantsTheNameOfARankThatIsStopped) {
  const Fault stop{.harm = Harm::stop_rank, .rank = 1};
  EXPECT_EQ(check_end(stop, true, ended(3, "flotilla: rank 0 on a: rank 1 on b does not answer"), 6.0, 4),
            "");
  EXPECT_NE(check_end(stop, true, ended(3, "flotilla: rank 0 on a: rank 2 on b does not answer"), 6.0, 4),
            "");
  EXPECT_NE(check_end(stop, true, ended(137), 6.0, 4), "");
}

TEST(CheckEnd, WantsReasonRankAndStepOfACallThatFails) {
  Fault fails{.harm = Harm::fail_call, .call = {.rank = 1, .word = "read", .number = 2, .error = "ESTALE"}};
  const auto told = [&](int code, const std::string& line) {
    return check_end(fails, true, ended(code, "flotilla: " + line), 6.0, 4);
  };
  EXPECT_EQ(told(2, "rank 1 on a, step 4: cannot read 'x': Stale file handle"), "");
  EXPECT_NE(told(2, "rank 1 on a: cannot read 'x': Stale file handle"), "");
  const std::string warning = "warning: not saved: Stale file handle\nflotilla: ";
  EXPECT_EQ(told(2, warning + "rank 1 on a, step 4: not saved: Stale file handle"), "");
  EXPECT_NE(told(2, warning + "rank 1 on a: not saved: Stale file handle"), "");
  EXPECT_EQ(told(2, "rank 0 on a, step 4: step 8 was not saved: server 1: 'x': Stale file handle"), "");
  EXPECT_NE(told(2, "rank 0 on a, step 4: step 8 was not saved: 'x': Stale file handle"), "");
  EXPECT_NE(told(2, "rank 1 on a, step 4: cannot read 'x'"), "");
  EXPECT_NE(told(3, "rank 0 on a, step 4: nothing has moved for 4 s"), "");
  fails.call.error = "short";
  EXPECT_EQ(told(0, ""), "");
  EXPECT_NE(told(2, "rank 1 on a, step 4: cannot read 'x'"), "");
}

TEST(CheckEnd, WantsACheckpointOfARunThatIsAskedToStop) {
  const Fault asked{.harm = Harm::end_ranks, .moment = Moment::in_validation};
  EXPECT_EQ(check_end(asked, true, ended(75), 1.0, 4), "");
  EXPECT_NE(check_end(asked, true, ended(0), 1.0, 4), "");
  EXPECT_NE(check_end(asked, true, ended(143), 1.0, 4), "");
}

}  // namespace
}  // namespace flotilla::test
