// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/kernels/loops_device.hpp"
#include "tests/kernels/shuffled_order.hpp"

/// Shows that random orders of indices, teams and lanes reveal code that depends on the order.
namespace flotilla {
namespace {

using loops::each_lane;
using loops::TeamOf;

constexpr int teams = 6;
constexpr int lanes = 32;

/// The predecessor whose value each one reads in the round that writes it: a race, which the host's usual
/// order hides.
enum class Reads { none, of_index, of_team, of_lane };

/// values[i] ← i + 1
struct CountIndices {
  Reads reads;
  int* values;
  void operator()(std::int64_t i) const {
    values[i] = reads == Reads::of_index && i > 0 ? values[i - 1] + 1 : static_cast<int>(i) + 1;
  }
};

/// Like CountIndices, by the lanes of teams.
template <class Space>
struct CountLanes {
  Reads reads;
  int* values;
  void operator()(const TeamOf<Space>& team) const {
    const int begin = team.league_rank() * lanes;
    int* const counted = loops::shared<int>(team, lanes);
    each_lane(team, lanes, [&](int lane) { counted[lane] = 0; });
    each_lane(team, lanes, [&](int lane) {
      counted[lane] = reads == Reads::of_lane && lane > 0 ? counted[lane - 1] + 1 : lane + 1;
    });
    each_lane(team, lanes, [&](int lane) {
      const int before = reads == Reads::of_team && begin > 0 ? values[begin - 1] : begin;
      values[begin + lane] = before + counted[lane];
    });
  }
};

template <class Space>
bool counts_right(Reads reads) {
  std::vector<int> expected(teams * lanes);
  std::iota(expected.begin(), expected.end(), 1);
  std::vector<int> by_index(expected.size());
  std::vector<int> by_lane(expected.size());
  loops::for_each(Space(), "test", teams * lanes, CountIndices{reads, by_index.data()});
  loops::for_each_team(Space(), "test", teams, lanes, sizeof(int) * lanes,
                       CountLanes<Space>{reads, by_lane.data()});
  return by_index == expected && by_lane == expected;
}

class LoopsOrder : public testing::Test {
 protected:
  static void SetUpTestSuite() { test::serial_loops(); }  // starts Kokkos
};

TEST_F(LoopsOrder, ShowsARaceThatTheOrderOfAHostHides) {
  for (const Reads reads : {Reads::of_index, Reads::of_team, Reads::of_lane}) {
    EXPECT_TRUE(counts_right<Kokkos::Serial>(reads));
    int wrong = 0;
    for (int again = 0; again < 20; ++again) wrong += counts_right<test::ShuffledSerial>(reads) ? 0 : 1;
    EXPECT_GE(wrong, 10) << static_cast<int>(reads);
  }
}

TEST_F(LoopsOrder, IsWithoutEffectOnRoundsThatWait) {
  for (int again = 0; again < 20; ++again) EXPECT_TRUE(counts_right<test::ShuffledSerial>(Reads::none));
}

TEST_F(LoopsOrder, IsAnotherEachTimeAndLeavesNothingOut) {
  for (const std::int64_t count : {1, 2, 3, 12, 256, 1000}) {
    std::vector<std::vector<std::int64_t>> orders;
    for (int again = 0; again < 50; ++again) {
      const test::Permutation order(count, test::order_state());
      std::vector<std::int64_t> all;
      for (std::int64_t i = 0; i < count; ++i) all.push_back(order(i));
      orders.push_back(all);
      std::ranges::sort(all);
      for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i) << count;
    }
    std::ranges::sort(orders);
    const auto equal = std::ranges::unique(orders);
    EXPECT_GE(50 - std::ssize(equal), std::min<std::int64_t>(count, 3)) << count;
  }
}

}  // namespace
}  // namespace flotilla
