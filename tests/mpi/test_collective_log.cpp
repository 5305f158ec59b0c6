// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "mpi/core/collective_log.hpp"

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
  EXPECT_NE(text.find("tests/mpi/test_collective_log.cpp:"), std::string::npos) << text;
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

}  // namespace
}  // namespace flotilla::mpi
