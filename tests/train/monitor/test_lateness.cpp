// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "src/train/monitor/lateness.hpp"

namespace flotilla {
namespace {

using Times = std::vector<std::int64_t>;

TEST(Lateness, BlamesWhoWaitedLeastForWhatTheNextDid) {
  Lateness lateness(3);

  lateness.record(Times{400, 0, 200});
  lateness.record(Times{5, 105, 55});
  lateness.record(Times{70, 60, 10});

  EXPECT_EQ(lateness.meetings, 3);
  EXPECT_EQ(lateness.times_last, (Times{1, 1, 1}));
  EXPECT_EQ(lateness.cost_ns, (Times{50, 200, 50}));
}

TEST(Lateness, BlamesTheFirstOfThoseThatCameTogetherForNothing) {
  Lateness lateness(2);

  lateness.record(Times{7, 7});

  EXPECT_EQ(lateness.times_last, (Times{1, 0}));
  EXPECT_EQ(lateness.cost_ns, (Times{0, 0}));
}

TEST(Lateness, KnowsNoneWhereAWorkerIsAlone) {
  Lateness lateness(1);

  lateness.record(Times{7});

  EXPECT_EQ(lateness.meetings, 0);
}

}  // namespace
}  // namespace flotilla
