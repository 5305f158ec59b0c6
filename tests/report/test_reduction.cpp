// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>

#include "src/report/reduction.hpp"

namespace flotilla::report {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Values without an order, each once.
double value_at(int step) {
  return static_cast<double>(step * 7919 % 10007);
}

TEST(Reduction, KeepsAllPointsOfAShortSeries) {
  Reduction reduction(8);
  std::vector<Point> given;
  for (int step = 1; step <= 8; ++step) given.push_back({static_cast<double>(step), value_at(step)});
  for (const Point& point : given) reduction.add(point);

  EXPECT_EQ(reduction.points(), given);
}

TEST(Reduction, KeepsTheLowestAndTheHighestOfEveryBucketExactly) {
  for (const int count : {9, 100, 1000, 4096, 10000}) {
    Reduction reduction(8);
    for (int step = 1; step <= count; ++step) reduction.add({static_cast<double>(step), value_at(step)});
    const std::vector<Point> kept = reduction.points();
    const auto per_bucket = static_cast<int>(std::bit_ceil(static_cast<unsigned>((count + 7) / 8)));

    EXPECT_LE(kept.size(), 18U);
    const auto is_kept = [&](int step) {
      return std::ranges::find(kept, Point{static_cast<double>(step), value_at(step)}) != kept.end();
    };
    for (int begin = 1; begin <= count; begin += per_bucket) {
      int low = begin;
      int high = begin;
      for (int step = begin; step < begin + per_bucket && step <= count; ++step) {
        if (value_at(step) < value_at(low)) low = step;
        if (value_at(step) > value_at(high)) high = step;
      }
      EXPECT_TRUE(is_kept(low)) << count << " points, step " << low;
      EXPECT_TRUE(is_kept(high)) << count << " points, step " << high;
    }
    EXPECT_TRUE(is_kept(1));
    EXPECT_TRUE(is_kept(count));
    EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &Point::step));
  }
}

TEST(Reduction, LeavesAGapOnlyWhereNothingIsFinite) {
  Reduction reduction(2);
  double step = 0.0;
  for (const double value : {1.0, nan, nan, nan}) reduction.add({++step, value});

  const std::vector<Point> kept = reduction.points();
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_EQ(kept[0], (Point{1.0, 1.0}));
  EXPECT_TRUE(std::isnan(kept[1].value));
}

TEST(Reduction, HasTheMeanOfWhatIsFiniteInEachBucket) {
  Reduction reduction(2);
  for (const double value : {1.0, 5.0}) reduction.add({value, value});
  EXPECT_TRUE(reduction.means().empty());
  for (const double value : {6.0, nan}) reduction.add({value > 0 ? value : 7.0, value});

  EXPECT_EQ(reduction.means(), (std::vector<Point>{{5.0, 3.0}, {7.0, 6.0}}));
}

TEST(MeanReduction, IsTheMeanOfEachBucket) {
  MeanReduction<2> reduction(4);
  for (int step = 1; step <= 16; ++step) reduction.add(step, {1.0 * step, 1.0});

  const auto means = reduction.means();
  ASSERT_EQ(means.size(), 4U);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(means[static_cast<std::size_t>(i)].step, 4.0 * (i + 1));
    EXPECT_EQ(means[static_cast<std::size_t>(i)].values, (std::array<double, 2>{4.0 * i + 2.5, 1.0}));
  }
}

TEST(Thinning, KeepsTheFirstAndTheLast) {
  Thinning<int> thinning(8);
  for (int i = 0; i <= 1000; ++i) thinning.add(i);

  const std::vector<int> kept = thinning.items();
  EXPECT_LE(kept.size(), 9U);
  EXPECT_EQ(kept.front(), 0);
  EXPECT_EQ(kept.back(), 1000);
  EXPECT_TRUE(std::ranges::is_sorted(kept));
}

}  // namespace
}  // namespace flotilla::report
