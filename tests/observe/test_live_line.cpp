// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "src/observe/console.hpp"

namespace flotilla {
namespace {

const StartReport run{.steps = 790, .steps_per_epoch = 79};
const LiveStep now{.step = 203,
                   .epoch = 2,
                   .batch = 45,
                   .loss = 0.123424,
                   .samples_per_s = 111483.2,
                   .step_s = 0.5,
                   .waiting = 0.123,
                   .seconds_per_step = 1.0};

TEST(LiveLine, SaysWhereTheRunStandsAndWhenItEnds) {
  EXPECT_EQ(live_line(run, now, 200),
            " 25 % [######..................] epoch 3 of 10, step 203/790, loss 0.12342, 111483 samples/s, "
            "epoch 17 s left, run 9 min 47 s left, waiting 12 %");
}

TEST(LiveLine, SaysNothingOfTheEpochsEndInTheLastOne) {
  LiveStep last = now;
  last.step = 720;
  last.epoch = 9;
  last.batch = 9;
  last.waiting.reset();

  EXPECT_EQ(live_line(run, last, 200),
            " 91 % [#####################...] epoch 10 of 10, step 720/790, loss 0.12342, 111483 samples/s, "
            "run 1 min 10 s left");
}

TEST(LiveLine, SaysNothingOfAnEndThatIsNotKnown) {
  const StartReport endless{.steps = 0, .steps_per_epoch = 79};

  EXPECT_EQ(live_line(endless, now, 200), "epoch 3, step 203, loss 0.12342, 111483 samples/s, waiting 12 %");
  EXPECT_EQ(live_line(endless, now, 40), "epoch 3, step 203, loss 0.12342");
  EXPECT_EQ(live_line(endless, now, 10), "step 203,");
}

TEST(LiveLine, LeavesOutWhatMattersLeastWhereTheTerminalIsNarrow) {
  EXPECT_EQ(
      live_line(run, now, 100),
      " 25 % [##........] epoch 3 of 10, step 203/790, loss 0.12342, 111483 samples/s, run 9 min 47 s left");
  EXPECT_EQ(live_line(run, now, 60), " 25 % step 203/790, loss 0.12342, run 9 min 47 s left");
  EXPECT_EQ(live_line(run, now, 30), " 25 % run 9 min 47 s left");
}

TEST(LiveLine, StaysWithinItsColumns) {
  for (int columns = 1; columns < 220; ++columns) {
    EXPECT_LT(live_line(run, now, columns).size(), static_cast<std::size_t>(columns));
    EXPECT_LT(line_with_bar(0.5, {"staging data", "12 s left", "1.2 GB of 3.4 GB"}, columns).size(),
              static_cast<std::size_t>(columns));
  }
}

TEST(LiveLine, FillsTheBarWithTheWorkDone) {
  EXPECT_EQ(line_with_bar(0.0, {"staging"}, 80), "  0 % [........................] staging");
  EXPECT_EQ(line_with_bar(0.45, {"staging"}, 80), " 45 % [##########..............] staging");
  EXPECT_EQ(line_with_bar(1.0, {"staging"}, 80), "100 % [########################] staging");
  EXPECT_EQ(line_with_bar(1.3, {"staging"}, 80), "100 % [########################] staging");
}

}  // namespace
}  // namespace flotilla
