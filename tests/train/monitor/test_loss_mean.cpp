// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "src/train/step_reports.hpp"

namespace flotilla {
namespace {

TEST(LossMean, IsOfTheStepsSinceItWasTaken) {
  LossMean losses;
  losses.add({.loss = 1.0, .samples = 8.0});
  losses.add({.loss = 3.0, .samples = 8.0});

  EXPECT_EQ(losses.take(), 2.0);
  losses.add({.loss = 5.0, .samples = 8.0});
  EXPECT_EQ(losses.take(), 5.0);
  EXPECT_EQ(losses.take(), std::nullopt);
}

TEST(LossMean, LeavesStepsOutThatHaveNone) {
  LossMean losses;
  losses.add({.loss = 0.0, .samples = 0.0});
  losses.add({.loss = std::numeric_limits<double>::infinity(), .samples = 8.0});
  losses.add({.loss = 4.0, .samples = 8.0});

  EXPECT_EQ(losses.take(), 4.0);
}

}  // namespace
}  // namespace flotilla
