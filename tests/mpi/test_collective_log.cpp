// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "mpi/core/collective_checks.hpp"
#include "mpi/core/collective_log.hpp"
#include "tests/support/messages.hpp"

namespace flotilla::mpi {
namespace {

TEST(CollectiveLog, RemembersTheLastCallsWithTheirPlace) {
  CollectiveLog log(1);
  for (std::int64_t number = 1; number <= 20; ++number) log.begin("all-reduce", "float", 7, number);

  const CollectiveHistory history = log.history();

  EXPECT_EQ(history.begun, 20);
  EXPECT_EQ(history.first, 14);
  EXPECT_EQ(history.waiting, 0);
  const std::string text = history.call(14).text();
  EXPECT_EQ(text.find("all-reduce of 7 float values (step 14, "), 0U) << text;
  EXPECT_TRUE(test::mentions(text, {"tests/mpi/test_collective_log.cpp:"}));
}

TEST(CollectiveLog, GivesEachNewCommunicatorANameOfItsOwn) {
  std::set<std::uint64_t> names;
  for (const std::uint64_t parent : {1, 2, 3}) {
    CollectiveLog log(parent);
    for (std::int64_t number = 1; number <= 100; ++number) {
      log.begin("split of the communicator", "", -1, {});
      for (const int first_rank : {0, 1, 2}) names.insert(log.made(first_rank));
    }
  }

  EXPECT_EQ(names.size(), 3U * 100U * 3U);
}

TEST(CollectiveLog, TellsOtherThreadsOnlyCallsThatAreComplete) {
  CollectiveLog log(1);
  std::atomic<bool> stop{false};
  std::thread caller([&] {
    for (std::int64_t number = 1; !stop.load(); ++number)
      log.begin(number % 2 == 0 ? "even" : "odd", number % 3 == 0 ? "third" : "other", number, number);
  });
  std::int64_t torn = 0;
  std::int64_t begun = 0;
  for (int looks = 0; looks < 200'000 || begun < 1000; ++looks) {
    const CollectiveHistory history = log.history();
    begun = history.begun;
    for (std::int64_t number = history.first; number <= history.begun; ++number) {
      const CollectiveCall& call = history.call(number);
      const bool whole = call.count == number && call.step == number &&
                         std::string_view(call.kind.data()) == (number % 2 == 0 ? "even" : "odd") &&
                         std::string_view(call.type.data()) == (number % 3 == 0 ? "third" : "other");
      torn += whole ? 0 : 1;
    }
  }
  stop = true;
  caller.join();

  EXPECT_EQ(torn, 0);
}

const std::vector<std::string> names = {"rank 0", "rank 1", "rank 2"};

CollectiveCall call(std::string_view kind, std::int64_t step, std::int64_t line = 10) {
  CollectiveCall call{.line = line, .step = step};
  std::ranges::copy(kind, call.kind.begin());
  std::ranges::copy(std::string_view("here.cpp"), call.file.begin());
  return call;
}

/// On a communicator: calls of steps 1, 2, … `begun`; the last by `thread`, which is still in it or not.
CollectiveHistory history(std::uint64_t communicator, std::int64_t begun, bool waits,
                          std::int32_t thread = 0) {
  CollectiveHistory history{.communicator = communicator, .begun = begun, .thread = thread};
  history.waiting = waits ? 1 : 0;
  history.first = std::max<std::int64_t>(1, begun - 6);
  for (std::int64_t number = history.first; number <= begun; ++number)
    history.calls[static_cast<std::size_t>(number) % CollectiveHistory::kept] =
        call(communicator == 1 ? "all-reduce" : "barrier", number);
  return history;
}

/// Of each rank; none: it has not answered.
using Histories = std::vector<std::optional<std::vector<CollectiveHistory>>>;

RankHistories in_common(const Histories& ranks) {
  RankHistories all;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank])
      for (const CollectiveHistory& history : *ranks[rank])
        all[HashedHistory(history)].push_back(static_cast<int>(rank));
  return all;
}

std::vector<NumberedCall> with_texts(std::vector<NumberedCall> calls, const Histories& ranks) {
  for (NumberedCall& each : calls) {
    const auto& histories = *ranks[static_cast<std::size_t>(each.rank)];
    each.call =
        std::ranges::find(histories, each.communicator, &CollectiveHistory::communicator)->call(each.number);
  }
  return calls;
}

std::string mismatch_in(const Histories& ranks) {
  const RankHistories all = in_common(ranks);
  const std::vector<NumberedCall> different = find_mismatch(all);
  if (different.empty()) return {};
  return text_of_mismatch(calls_of(all, with_texts(different, ranks)), names);
}

TEST(CollectiveMismatch, ARankThatIsBehindIsNoMismatch) {
  const Histories ranks = {{{history(1, 57, true)}}, {{history(1, 56, false)}}, {{history(1, 3, false)}}};

  EXPECT_EQ(mismatch_in(ranks), "");
  EXPECT_TRUE(find_deadlock(in_common(ranks)).empty());
}

TEST(CollectiveMismatch, DifferentCallsOfOneNumberAreNamed) {
  CollectiveHistory other = history(1, 56, true);
  other.calls[56 % CollectiveHistory::kept] = call("broadcast", 57, 12);
  const Histories ranks = {{{history(1, 57, true)}}, {{other}}, {{history(1, 56, true)}}};

  EXPECT_EQ(mismatch_in(ranks),
            "mismatched collective calls: rank 0, rank 2 in all-reduce (step 56, here.cpp:10); rank 1 in "
            "broadcast (step 57, here.cpp:12)");
}

TEST(CollectiveMismatch, DifferentStepsOfOneNumberAreNamed) {
  CollectiveHistory other = history(1, 57, true);
  other.calls[57 % CollectiveHistory::kept] = call("all-reduce", 58);
  const Histories ranks = {{{history(1, 57, true)}}, std::nullopt, {{other}}};

  EXPECT_EQ(mismatch_in(ranks),
            "mismatched collective calls: rank 0 in all-reduce (step 57, here.cpp:10); rank 2 in all-reduce "
            "(step 58, here.cpp:10)");
}

TEST(CollectiveMismatch, TheTextOfEachCallIsAskedForOnceAndOfEightAtMost) {
  Histories ranks;
  for (std::int64_t rank = 0; rank < 40; ++rank) {
    CollectiveHistory own = history(1, 57, true);
    if (rank >= 30) own.calls[57 % CollectiveHistory::kept] = call("broadcast", 57, rank);
    ranks.push_back({{own}});
  }

  const std::vector<NumberedCall> of_eleven = find_mismatch(in_common(ranks));
  ranks.resize(31);
  const std::vector<NumberedCall> of_two = find_mismatch(in_common(ranks));

  EXPECT_EQ(of_eleven.size(), 8U);
  ASSERT_EQ(of_two.size(), 2U);
  EXPECT_EQ(of_two.front().rank + of_two.back().rank, 30);
}

TEST(CollectiveMismatch, CallsThatARankHasForgottenAreNotCompared) {
  CollectiveHistory ahead = history(1, 67, false);
  const Histories ranks = {{{history(1, 57, true)}}, {{ahead}}, {{history(1, 57, true)}}};

  EXPECT_EQ(mismatch_in(ranks), "");
}

TEST(CollectiveMismatch, OnlyCallsThatRanksRememberAreVisited) {
  const Histories ranks = {{{history(1, 0, false)}}, {{history(1, std::int64_t{1} << 60, true)}}};

  EXPECT_EQ(mismatch_in(ranks), "");  // at once
}

TEST(CollectiveMismatch, RanksThatWaitForEachOtherAreADeadlock) {
  const Histories ranks = {{{history(1, 57, true), history(2, 8, false)}},
                           {{history(1, 56, false), history(2, 9, true)}},
                           {{history(1, 57, true), history(2, 8, false)}}};

  const std::vector<NumberedCall> deadlock = find_deadlock(in_common(ranks));

  ASSERT_EQ(deadlock.size(), 2U);
  EXPECT_EQ(text_of_deadlock(with_texts(deadlock, ranks), names),
            "deadlock of collective calls: rank 0 in all-reduce (step 57, here.cpp:10); rank 1 in barrier "
            "(step 9, here.cpp:10)");
}

TEST(CollectiveMismatch, ADeadlockMayGoOverSeveralRanks) {
  const Histories ranks = {{{history(1, 2, true), history(3, 1, false)}},
                           {{history(1, 1, false), history(2, 2, true)}},
                           {{history(2, 1, false), history(3, 2, true)}}};

  EXPECT_EQ(find_deadlock(in_common(ranks)).size(), 3U);
}

TEST(CollectiveMismatch, ARankThatDoesNotWaitMayStillCome) {
  const Histories ranks = {{{history(1, 57, true), history(2, 8, false)}},
                           {{history(1, 56, false), history(2, 8, false)}}};

  EXPECT_TRUE(find_deadlock(in_common(ranks)).empty());
}

TEST(CollectiveMismatch, AnotherThreadMayStillCome) {
  const Histories ranks = {{{history(1, 57, true, 0), history(2, 8, false, 0)}},
                           {{history(1, 56, false, 0), history(2, 9, true, 1)}}};

  EXPECT_TRUE(find_deadlock(in_common(ranks)).empty());
}

TEST(CollectiveMismatch, AThreadThatIsNotKnownMayStillCome) {
  const Histories ranks = {{{history(1, 57, true), history(2, 8, false)}},
                           {{history(1, 0, false, -1), history(2, 9, true)}}};

  EXPECT_TRUE(find_deadlock(in_common(ranks)).empty());
}

TEST(CollectiveMismatch, ARankThatWaitsForADeadlockIsNotInIt) {
  const Histories ranks = {{{history(3, 2, true)}},
                           {{history(1, 2, true), history(2, 1, false), history(3, 1, false)}},
                           {{history(1, 1, false), history(2, 2, true), history(3, 2, false)}}};

  const std::vector<NumberedCall> deadlock = find_deadlock(in_common(ranks));

  ASSERT_EQ(deadlock.size(), 2U);
  EXPECT_EQ(deadlock.front().rank + deadlock.back().rank, 3);
}

}  // namespace
}  // namespace flotilla::mpi
