// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "mpi/core/native.hpp"
#include "mpi/watchdog/roll_call.hpp"
#include "tests/mpi/on_all_ranks.hpp"

// Run on 1, 2 and 4 ranks.

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
  world.barrier();  // no rank frees its communicator while others use it
  return text;
}

using RollCallOnAllRanks = OnAllRanks;

TEST_F(RollCallOnAllRanks, LeavesNoMessageToTheNextCommunicator) {
  for (int turn = 0; turn < 3; ++turn) {
    RollCall call(world, hosts_of(world));
    // The question is sent when the other ranks are at the end.
    if (world.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      call.call(0.5, 0.0);
    }
    call.receive_rest();
  }
  world.barrier();

  const Communicator next = world.collective_clone();
  int waiting = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, NativeHandle::of(next), &waiting, MPI_STATUS_IGNORE);

  EXPECT_EQ(waiting, 0);
}

TEST_F(RollCallOnAllRanks, FindsAllInTheSamePlace) {
  const std::string text = ask(world, 0, presence("all-reduce of bucket", 57, 2), -1);

  if (world.is_root()) {
    EXPECT_EQ(text, world.size() == 1 ? "" : "all wait in the same place");
  }
}

TEST_F(RollCallOnAllRanks, NamesTheRankThatDoesNotAnswer) {
  if (world.size() == 1) GTEST_SKIP() << "needs another rank";
  const int silent = world.size() - 1;

  const std::string text = ask(world, 0, presence("saving", 57), silent);

  if (world.is_root()) {
    EXPECT_EQ(text, "rank " + std::to_string(silent) + " on h" + std::to_string(silent) + " does not answer" +
                        (world.size() > 2 ? "; the others wait in the same place" : ""));
  }
}

TEST_F(RollCallOnAllRanks, NamesRank0WhereItDoesNotAnswer) {
  if (world.size() == 1) GTEST_SKIP() << "needs another rank";
  const int asking = world.size() - 1;

  const std::string text = ask(world, asking, presence("saving", 57), 0);

  if (world.rank() == asking) {
    EXPECT_EQ(text, std::string("rank 0 on h0 does not answer") +
                        (world.size() > 2 ? "; the others wait in the same place" : ""));
  }
}

TEST_F(RollCallOnAllRanks, TellsWhereTheOthersAre) {
  if (world.size() != 4) GTEST_SKIP() << "needs four ranks";
  const Presence mine = world.rank() == 2 ? presence("waiting for input", 56) : presence("all-reduce", 57, 1);

  const std::string text = ask(world, 1, mine, -1, {2, 3});

  if (world.rank() == 1) {
    EXPECT_EQ(text,
              "rank 2 on h2 is elsewhere: waiting for input, step 56, for 7 s; rank 3 on h3 has not arrived "
              "there; the others wait in the same place");
  }
}

TEST_F(RollCallOnAllRanks, LeavesTheWordToTheLowestRankThatEndsTheJob) {
  if (world.size() == 1) GTEST_SKIP() << "needs another rank";
  bool left = false;

  ask(world, 1, presence("saving", 57, -1, world.rank() == 0), -1, {}, &left);
  bool left_to_none = false;
  ask(world, 1, presence("saving", 57), -1, {}, &left_to_none);

  EXPECT_EQ(left, world.rank() == 1);
  EXPECT_FALSE(left_to_none);
}

/// The others answer while rank 0 does `first`, and all but the last one while it does `then`.
template <class First, class Then>
void call_beside_one_that_falls_silent(const Communicator& world, const Presence& mine, RollCall& call,
                                       First first, Then then) {
  const auto beside = [&](bool answers, auto work) {
    std::atomic<bool> over{false};
    std::thread watchdog([&] {
      while (!over) {
        if (answers) call.answer(mine);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    if (world.is_root()) work();
    world.barrier();
    over = true;
    watchdog.join();
  };
  beside(!world.is_root(), first);
  world.barrier();
  beside(!world.is_root() && world.rank() != world.size() - 1, then);
  world.barrier();
}

TEST_F(RollCallOnAllRanks, MeasuresHowLongARankIsSilentAndTellsWhatItSaidLast) {
  if (world.size() == 1) GTEST_SKIP() << "needs another rank";
  const Presence mine = presence("opening the data", -1);
  RollCall call(world, hosts_of(world));
  std::string text;
  std::array<double, 3> silences{};

  call_beside_one_that_falls_silent(
      world, mine, call,
      [&] {
        call.set_time(100.0);
        call.begin_silences();
        silences[0] = call.silence_s();
        call.set_time(103.0);
        call.ask(mine, 60.0);
      },
      [&] {
        call.set_time(110.0);
        call.ask(mine, 0.6);
        silences[1] = call.silence_s();
        text = call.text(mine, {});
        call.begin_silences();
        silences[2] = call.silence_s();
      });

  if (!world.is_root()) return;
  EXPECT_EQ(silences, (std::array{0.0, 7.0, 0.0}));
  const std::string last = std::to_string(world.size() - 1);
  EXPECT_EQ(text, "rank " + last + " on h" + last + " does not answer, last heard of: opening the data" +
                      (world.size() > 2 ? "; the others wait in the same place" : ""));
}

TEST(Presence, TellsWhatIsDone) {
  Presence done = presence("opening the data", -1);
  done.done = 1;

  EXPECT_EQ(done.text(), "opening the data, done here");
  EXPECT_FALSE(done.is_with(presence("opening the data", -1)));
}

TEST(Presence, IsCutWhereItsTextIsTooLong) {
  const Presence cut = presence(std::string(100, 'x').c_str(), 3, 1);

  EXPECT_EQ(cut.text(), std::string(63, 'x') + " 1, step 3");
}

}  // namespace
}  // namespace flotilla::mpi
