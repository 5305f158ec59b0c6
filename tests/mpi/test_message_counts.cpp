// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/core/clock.hpp"
#include "mpi/core/collective_log.hpp"
#include "mpi/core/rank_tree.hpp"
#include "mpi/core/stop_consensus.hpp"
#include "mpi/watchdog/roll_call.hpp"
#include "tests/mpi/on_all_ranks.hpp"
#include "tests/support/allocation_count.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/mpi_calls.hpp"

// How the messages of all ranks together grow with the number of ranks.

namespace flotilla::mpi {
namespace {

using test::mpi_calls;

class MessageCounts : public OnAllRanks {
 protected:
  /// Collective. @param sent messages of this rank
  std::int64_t over_all(std::int64_t sent, Op op = Op::sum) const {
    world.all_reduce(std::span(&sent, 1), op);
    return sent;
  }
};

TEST_F(MessageCounts, AMeetingTakesTwoForEachWorker) {
  StopConsensus consensus(world, 6);
  const std::array<double, 6> mine{};
  std::array<double, 6> sums{};
  mpi_calls() = {};

  for (std::int64_t steps = 1; steps <= 5; ++steps) consensus.gather(steps, mine, sums);

  const std::int64_t sends = mpi_calls().sends;
  EXPECT_EQ(mpi_calls().collectives, 0);
  EXPECT_EQ(over_all(sends), 5 * 2 * (world.size() - 1));
  EXPECT_LE(over_all(sends, Op::max), 5 * (RankTree::max_children + 1));
}

TEST_F(MessageCounts, AStopTakesFourForEachWorker) {
  mpi_calls() = {};
  {
    StopConsensus consensus(world, 1);
    if (world.rank() == world.size() - 1) consensus.ask_to_stop();
    EXPECT_TRUE(consensus.must_gather(world.rank()) == (world.rank() == world.size() - 1));
  }

  EXPECT_EQ(over_all(mpi_calls().sends), 4 * (world.size() - 1));
}

/// Messages of this rank while all but `silent` want to know how the others are, and answer for a second.
std::int64_t sent_in_a_roll_call(const Communicator& world, int silent,
                                 const std::vector<std::string>& hosts) {
  const Presence presence{.step = 1};
  RollCall call(world, hosts);
  world.barrier();
  mpi_calls() = {};
  if (world.rank() != silent) {
    call.call(silent < 0 ? 8.0 : 0.4, 0.0);
    for (int i = 0; i < 200; ++i) {
      call.answer(presence);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  const std::int64_t sent = mpi_calls().sends;
  world.barrier();
  call.receive_rest();
  return sent;
}

TEST_F(MessageCounts, ARollCallTakesFourForEachRankHoweverManyWantOne) {
  const std::vector<std::string> hosts(static_cast<std::size_t>(world.size()), "h");

  const std::int64_t sent = sent_in_a_roll_call(world, -1, hosts);

  // Each rank sends a request but rank 0, which sends questions and results; rank 0 asks itself, too.
  EXPECT_EQ(over_all(sent), 4 * world.size() - 2);
}

TEST_F(MessageCounts, ARollCallWithoutRank0GrowsWithTheRanksToo) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < world.size(); ++rank) hosts.push_back("h" + std::to_string(rank / 4));

  const std::int64_t sent = sent_in_a_roll_call(world, 0, hosts);

  EXPECT_LE(over_all(sent), 3 * 4 * world.size());
}

TEST_F(MessageCounts, LookingForMismatchesTakesThreeForEachRankAndNoCallsWhileThereAreNone) {
  RollCall call(world, std::vector<std::string>(static_cast<std::size_t>(world.size()), "h"));
  world.barrier();
  mpi_calls() = {};

  const double begin_s = now_s();
  for (double quiet_s = 0; quiet_s < 3.0; quiet_s = now_s() - begin_s) {
    call.answer({.step = 1, .quiet_s = quiet_s});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  // All ask after 1 s and 2 s: a request, a question and an answer. Other ranks' clocks may add a round.
  const std::int64_t sends = mpi_calls().sends;
  const std::int64_t bytes = mpi_calls().sent_bytes;
  EXPECT_LE(over_all(sends), 3 * 3 * world.size());
  EXPECT_LE(over_all(bytes), 3 * 160 * world.size());
  const std::int64_t partners = std::ssize(mpi_calls().partners);
  EXPECT_LE(over_all(partners, Op::max), RankTree::max_children + 1);
  RecordProperty("messages", static_cast<int>(over_all(sends)));
  RecordProperty("bytes", static_cast<int>(over_all(bytes)));
  world.barrier();
  call.receive_rest();
}

TEST_F(MessageCounts, AMismatchIsNamedByTheTextsOfTheCallsThatDiffer) {
  constexpr int text_tag = 7;
  std::deque<CollectiveLog> before;  // so many that the log that differs is in a rank's second message
  for (std::uint64_t name = 4001; name <= 4050; ++name)
    before.emplace_back(name).begin("all-reduce", "float", 7, std::int64_t{1});
  CollectiveLog log(4711);
  const bool differs = world.rank() == world.size() - 1;
  log.begin(differs ? "broadcast" : "all-reduce", "float", 7, 12);
  const std::vector<std::string> hosts(static_cast<std::size_t>(world.size()), "h");
  RollCall call(world, hosts);
  StopConsensus over(world, 1);
  world.barrier();
  mpi_calls() = {};

  const double begin_s = now_s();
  while (!over.stop_requested()) {
    call.answer({.step = 1, .quiet_s = now_s() - begin_s});
    if (!call.mismatch().empty()) over.ask_to_stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  const std::int64_t texts = mpi_calls().by_tag[text_tag];
  EXPECT_EQ(over_all(texts), 1);  // rank 0 has that of the others
  if (world.is_root()) {
    const std::string& said = call.mismatch();
    EXPECT_TRUE(test::mentions(said, {"rank 7 on h and", std::to_string(world.size() - 9) + " more in"}) ||
                world.size() == 8)
        << said;
    EXPECT_TRUE(test::mentions(said, {"mismatched collective calls: rank 0 on h, rank 1 on h, ",
                                      "in all-reduce of 7 float values (step 12, ",
                                      "; rank " + std::to_string(world.size() - 1) + " on h in broadcast"}))
        << said;
  }
  world.barrier();
  call.receive_rest();
}

// As on a busy machine, where each rank is somewhere else.
TEST_F(MessageCounts, LookingForMismatchesTakesAKilobyteForEachRankWhereverItWaits) {
  std::deque<CollectiveLog> logs;
  for (std::uint64_t name = 4001; name <= 4008; ++name) {
    logs.emplace_back(name);
    for (int i = 0; i <= (name == 4008 ? world.rank() : 8); ++i)
      logs.back().begin("all-reduce", "float", 7, std::int64_t{i});
  }
  logs.back().set_waiting(world.rank() % 2 == 0);
  RollCall call(world, std::vector<std::string>(static_cast<std::size_t>(world.size()), "h"));
  world.barrier();

  const double begin_s = now_s();
  const std::int64_t most = test::most_bytes_over([&] {
    for (double quiet_s = 0; quiet_s < 3.0; quiet_s = now_s() - begin_s) {
      call.answer({.step = 1, .quiet_s = quiet_s});
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });

  EXPECT_LE(most, 30'000 + 1000 * world.size());
  RecordProperty("bytes_held", static_cast<int>(over_all(most, Op::max)));
  world.barrier();
  call.receive_rest();
}

// By fours: what a rank sends grows with the logarithm of the number of ranks.
TEST_F(MessageCounts, ATreeTakesFewMessagesToFewPartners) {
  for (const Wire wire : {Wire::float32, Wire::bfloat16}) {
    const auto sums =
        make_mpi_all_reduce(world, wire, wire == Wire::float32 ? SumOrder::tree : SumOrder::any);
    std::vector<float> data(100'000, 1.0F);
    mpi_calls() = {};

    sums->all_reduce(device_span(data));

    const int fours = (std::bit_width(static_cast<unsigned>(world.size() - 1)) + 1) / 2;
    EXPECT_LE(mpi_calls().partners.size(), static_cast<std::size_t>(3 * fours));
    EXPECT_LE(mpi_calls().sends, 6 * fours);
    EXPECT_EQ(data, std::vector<float>(data.size(), static_cast<float>(world.size())));
    RecordProperty("messages", mpi_calls().sends);
    RecordProperty("partners", static_cast<int>(mpi_calls().partners.size()));
  }
}

}  // namespace
}  // namespace flotilla::mpi
