// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "mpi/roll_call.hpp"

// On 1, 2 and 4 ranks.

namespace flotilla::mpi {
namespace {

Presence presence(const char* what, std::int64_t step, std::int64_t index = -1, bool ending = false) {
  Presence presence{.step = step, .index = index, .quiet_s = 7.0, .ending = ending ? 1 : 0};
  presence.set_what(what);
  return presence;
}

std::vector<std::string> hosts_of(const Communicator& world) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < world.size(); ++rank) hosts.push_back("h" + std::to_string(rank));
  return hosts;
}

/// What `asking` learns, having asked while the others answer with `mine`; `silent` does not (−1: all do).
/// Empty on the others.
std::string ask(const Communicator& world, int asking, const Presence& mine, int silent,
                const std::vector<int>& missing = {}, bool* left_to_another = nullptr) {
  RollCall call(world, hosts_of(world));
  std::string text;
  if (world.rank() == asking) {
    call.ask(mine, silent >= 0 ? 0.7 : 60.0);
    text = call.text(mine, missing);
    if (left_to_another != nullptr) *left_to_another = call.left_to_another();
    world.barrier();
  } else {
    std::atomic<bool> over{false};
    std::thread watchdog([&] {
      while (!over) {
        if (world.rank() != silent) call.answer(mine);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    world.barrier();
    over = true;
    watchdog.join();
  }
  world.barrier();  // nobody frees its communicator while others use it
  return text;
}

TEST(RollCall, FindsAllInTheSamePlace) {
  const auto world = Communicator::world();

  const std::string text = ask(world, 0, presence("all-reduce of bucket", 57, 2), -1);

  if (world.is_root()) {
    EXPECT_EQ(text, world.size() == 1 ? "" : "all wait in the same place");
  }
}

TEST(RollCall, NamesTheRankThatDoesNotAnswer) {
  const auto world = Communicator::world();
  if (world.size() == 1) GTEST_SKIP() << "needs another rank";
  const int silent = world.size() - 1;

  const std::string text = ask(world, 0, presence("saving", 57), silent);

  if (world.is_root()) {
    EXPECT_EQ(text, "rank " + std::to_string(silent) + " on h" + std::to_string(silent) + " does not answer" +
                        (world.size() > 2 ? "; the others wait in the same place" : ""));
  }
}

TEST(RollCall, TellsWhereTheOthersAre) {
  const auto world = Communicator::world();
  if (world.size() != 4) GTEST_SKIP() << "needs four ranks";
  const Presence mine = world.rank() == 2 ? presence("waiting for input", 56) : presence("all-reduce", 57, 1);

  const std::string text = ask(world, 1, mine, -1, {2, 3});

  if (world.rank() == 1) {
    EXPECT_EQ(text,
              "rank 2 on h2 is elsewhere: waiting for input, step 56, for 7 s; rank 3 on h3 has not arrived "
              "there; the others wait in the same place");
  }
}

TEST(RollCall, LeavesTheWordToTheLowestRankThatEndsTheJob) {
  const auto world = Communicator::world();
  if (world.size() == 1) GTEST_SKIP() << "needs another rank";
  bool left = false;

  ask(world, 1, presence("saving", 57, -1, world.rank() == 0), -1, {}, &left);
  bool left_to_none = false;
  ask(world, 1, presence("saving", 57), -1, {}, &left_to_none);

  EXPECT_EQ(left, world.rank() == 1);
  EXPECT_FALSE(left_to_none);
}

TEST(Presence, IsCutWhereItsTextIsTooLong) {
  const Presence cut = presence(std::string(100, 'x').c_str(), 3, 1);

  EXPECT_EQ(cut.text(), std::string(63, 'x') + " 1, step 3");
}

}  // namespace
}  // namespace flotilla::mpi
