// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "src/train/monitor/straggler_monitor.hpp"

namespace flotilla {
namespace {

using Times = std::vector<std::int64_t>;

TEST(LastArrivals, BlamesWhoWaitedLeastForWhatTheNextDid) {
  LastArrivals arrivals(3);

  arrivals.record(Times{400, 0, 200});
  arrivals.record(Times{5, 105, 55});
  arrivals.record(Times{70, 60, 10});

  EXPECT_EQ(arrivals.synchronisations, 3);
  EXPECT_EQ(arrivals.times_last, (Times{1, 1, 1}));
  EXPECT_EQ(arrivals.cost_ns, (Times{50, 200, 50}));
}

TEST(LastArrivals, BlamesTheFirstOfThoseThatCameTogetherForNothing) {
  LastArrivals arrivals(2);

  arrivals.record(Times{7, 7});

  EXPECT_EQ(arrivals.times_last, (Times{1, 0}));
  EXPECT_EQ(arrivals.cost_ns, (Times{0, 0}));
}

TEST(LastArrivals, KnowsNoneWhereAWorkerIsAlone) {
  LastArrivals arrivals(1);

  arrivals.record(Times{7});

  EXPECT_EQ(arrivals.synchronisations, 0);
}

}  // namespace
}  // namespace flotilla
