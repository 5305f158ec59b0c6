// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "mpi/push_pull/push_pull.hpp"

namespace flotilla::mpi {
namespace {

std::vector<SliceBounds> cut(std::size_t values, std::size_t part_values) {
  PushPullParts parts(part_values);
  parts.start(values);
  std::vector<SliceBounds> all;
  for (std::size_t i = 0; i < parts.count(); ++i) all.push_back(parts.bounds(i));
  return all;
}

TEST(PushPullParts, CoverAllValuesWithoutGaps) {
  EXPECT_EQ(cut(10, 4), (std::vector<SliceBounds>{{0, 4}, {4, 8}, {8, 10}}));
  EXPECT_EQ(cut(8, 4), (std::vector<SliceBounds>{{0, 4}, {4, 8}}));
  EXPECT_EQ(cut(3, 4), (std::vector<SliceBounds>{{0, 3}}));
  EXPECT_EQ(cut(10, 0), (std::vector<SliceBounds>{{0, 10}}));
}

TEST(PushPullParts, NoValuesAreOneMessage) {
  EXPECT_EQ(cut(0, 4), (std::vector<SliceBounds>{{0, 0}}));
  EXPECT_EQ(cut(0, 0), (std::vector<SliceBounds>{{0, 0}}));
}

TEST(PushPullParts, NoMoreAreOnTheirWayThanThereArePlaces) {
  constexpr std::size_t places = PushPullParts::places;
  constexpr std::size_t values = 4 * (places + 2);
  PushPullParts parts(4);
  parts.start(values);

  for (std::size_t i = 0; i < places; ++i) {
    EXPECT_TRUE(parts.may_begin(values));
    EXPECT_EQ(parts.begin(), i);
  }
  EXPECT_FALSE(parts.may_begin(values));
  parts.end(PushPullParts::place_of(0));
  EXPECT_TRUE(parts.may_begin(values));
  EXPECT_EQ(parts.begin(), places);
  EXPECT_FALSE(parts.may_begin(values));
}

TEST(PushPullParts, OneThatOvertakesCountsWhenTheOneBeforeItIsOver) {
  PushPullParts parts(4);
  parts.start(10);
  parts.begin();
  parts.begin();

  parts.end(PushPullParts::place_of(1));
  EXPECT_EQ(parts.over(), 0U);
  parts.end(PushPullParts::place_of(0));
  EXPECT_EQ(parts.over(), 8U);
  EXPECT_FALSE(parts.all_over());
  parts.end(PushPullParts::place_of(parts.begin()));
  EXPECT_EQ(parts.over(), 10U);
  EXPECT_TRUE(parts.all_begun());
  EXPECT_TRUE(parts.all_over());
}

TEST(PushPullParts, WaitForWhatIsNotReady) {
  PushPullParts parts(4);
  parts.start(10);

  EXPECT_FALSE(parts.may_begin(3));
  EXPECT_TRUE(parts.may_begin(4));
  parts.begin();
  EXPECT_FALSE(parts.may_begin(7));
  EXPECT_TRUE(parts.may_begin(8));
  parts.start(10);
  EXPECT_TRUE(parts.may_begin(4));
}

}  // namespace
}  // namespace flotilla::mpi
