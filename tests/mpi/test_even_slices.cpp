// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "mpi/core/slices.hpp"

namespace flotilla::mpi {
namespace {

TEST(EvenSlices, AreDisjointCompleteAndBeginOnLines) {
  for (const int ranks : {1, 2, 3, 8})
    for (std::size_t count = 0; count < 600; ++count) {
      const EvenSlices slices(count, ranks);
      std::size_t at = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const SliceBounds slice = slices.of(rank);

        EXPECT_EQ(slice.begin, at);
        EXPECT_EQ(slice.begin % 16, 0U);
        EXPECT_LE(slice.end - slice.begin, slices.most());
        at = slice.end;
      }
      EXPECT_EQ(at, count);
    }
}

TEST(EvenSlices, GiveEachRankAsMuchAndTheLastOneTheRest) {
  const EvenSlices slices(100, 2);

  EXPECT_EQ(slices.part(), 48U);
  EXPECT_EQ(slices.rest(), (SliceBounds{96, 100}));
  EXPECT_EQ(slices.of(0), (SliceBounds{0, 48}));
  EXPECT_EQ(slices.of(1), (SliceBounds{48, 100}));
}

TEST(EvenSlices, OfAFewValuesAreTheLastRanksAlone) {
  const EvenSlices slices(15, 4);

  EXPECT_EQ(slices.part(), 0U);
  EXPECT_EQ(slices.of(0), (SliceBounds{0, 0}));
  EXPECT_EQ(slices.of(3), (SliceBounds{0, 15}));
}

TEST(EvenSlices, OfSmallerArraysNeedNoMoreRoomThanOfTheLargest) {
  for (std::size_t count = 0; count <= 1000; ++count) {
    const SliceBounds last = EvenSlices(count, 3).of(2);

    EXPECT_LE(last.end - last.begin, EvenSlices(1000, 3).most());
  }
}

}  // namespace
}  // namespace flotilla::mpi
