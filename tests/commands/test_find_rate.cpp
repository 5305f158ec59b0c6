// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/commands/find_rate.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

/// A loss that falls most steeply at 1e-3, is lowest at 1e-1 and then explodes.
double loss_at(double rate) {
  const double x = std::log10(rate);
  return 2.5 - std::tanh(1.5 * (x + 3.0)) + (x > -1.0 ? 20.0 * (x + 1.0) * (x + 1.0) : 0.0);
}

TEST(RateCurve, ProposesTheSteepestRateAndStopsWhereTheLossExplodes) {
  RateCurve curve;
  double rate = 1e-6;
  while (rate < 10.0 && curve.add(rate, loss_at(rate))) rate *= 1.1;
  EXPECT_LT(rate, 10.0);

  const auto proposal = curve.proposal();

  ASSERT_TRUE(proposal);
  // The average of about ten losses lags behind by less than a factor of 1.1^10 = 2.6.
  EXPECT_GT(proposal->steepest, 1e-3 / 1.5);
  EXPECT_LT(proposal->steepest, 1e-3 * 2.6);
  EXPECT_GT(proposal->lowest, 2e-2);
  EXPECT_LT(proposal->lowest, 0.3);
  EXPECT_EQ(proposal->rate, proposal->steepest);
}

TEST(RateCurve, AveragesWithoutTheBiasOfItsBeginning) {
  RateCurve curve;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(curve.add(std::pow(10.0, i), 3.0));
  for (const RatePoint& point : curve.points())
    EXPECT_TRUE(test::within_double_roundings(point.smoothed, 3.0, 8));
  EXPECT_FALSE(curve.add(1e6, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(curve.points().size(), 5U);
}

TEST(RateCurve, ProposesNothingWhereTheLossDoesNotFall) {
  RateCurve curve;
  for (int i = 0; i < 50; ++i) curve.add(std::pow(1.1, i), 1.0 + 0.01 * i);
  EXPECT_FALSE(curve.proposal());
}

}  // namespace
}  // namespace flotilla
