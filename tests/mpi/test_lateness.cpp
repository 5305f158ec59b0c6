// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "mpi/lateness.hpp"

namespace flotilla::mpi {
namespace {

using Times = std::vector<std::int64_t>;

TEST(Lateness, BlamesTheLastForWhatTheOthersWaited) {
  Lateness lateness(3);

  lateness.record(std::array{0, 1, 2}, Times{100, 500, 300});
  lateness.record(std::array{0, 1, 2}, Times{1000, 900, 950});
  lateness.record(std::array{0, 1, 2}, Times{10, 20, 70});

  EXPECT_EQ(lateness.collectives, 3);
  EXPECT_EQ(lateness.times_last, (Times{1, 1, 1}));
  EXPECT_EQ(lateness.cost_ns, (Times{50, 200, 50}));
  EXPECT_EQ(lateness.waited_ns, (Times{400 + 60, 100 + 50, 200 + 50}));
}

TEST(Lateness, BlamesTheFirstOfThoseThatCameTogether) {
  Lateness lateness(2);

  lateness.record(std::array{0, 1}, Times{7, 7});

  EXPECT_EQ(lateness.times_last, (Times{1, 0}));
  EXPECT_EQ(lateness.cost_ns, (Times{0, 0}));
}

TEST(Lateness, IsThatOfTheMembersAlone) {
  Lateness lateness(4);

  lateness.record(std::array{1, 3}, Times{5, 9});
  lateness.record(std::array{2}, Times{5});

  EXPECT_EQ(lateness.collectives, 1);
  EXPECT_EQ(lateness.times_last, (Times{0, 0, 0, 1}));
  EXPECT_EQ(lateness.waited_ns, (Times{0, 4, 0, 0}));
}

TEST(Lateness, AddsUpOverCommunicators) {
  Lateness sum(2);
  Lateness other(2);
  sum.record(std::array{0, 1}, Times{1, 2});
  other.record(std::array{0, 1}, Times{1, 4});

  sum += other;

  EXPECT_EQ(sum.collectives, 2);
  EXPECT_EQ(sum.cost_ns, (Times{0, 4}));
}

}  // namespace
}  // namespace flotilla::mpi
