// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <span>
#include <utility>
#include <vector>

#include "mpi/all_reduce/sum_arrays.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/core/slices.hpp"

namespace flotilla::mpi {
namespace {

TEST(Slices, AreDisjointCompleteAndCutAtCacheLines) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const std::size_t offset : {0, 1, 15, 16, 1003}) {
      for (const std::size_t count : {0, 1, 2, 15, 16, 17, 31, 32, 33, 144, 1021, 65'536}) {
        std::size_t next = offset;
        for (int rank = 0; rank < ranks; ++rank) {
          const SliceBounds slice = slice_of(offset, count, rank, ranks);
          ASSERT_EQ(slice.begin, next) << count << " from " << offset << ", rank " << rank << " of " << ranks;
          ASSERT_LE(slice.begin, slice.end);
          if (slice.begin > offset && slice.begin < offset + count) {
            ASSERT_EQ(slice.begin % 16, 0u);
          }
          next = slice.end;
        }
        ASSERT_EQ(next, offset + count);
      }
    }
  }
}

TEST(Slices, DifferByOneLineAtMost) {
  std::vector<std::size_t> sizes;
  for (int rank = 0; rank < 7; ++rank) {
    const SliceBounds slice = slice_of(0, 160'000, rank, 7);
    sizes.push_back(slice.end - slice.begin);
  }

  EXPECT_LE(std::ranges::max(sizes) - std::ranges::min(sizes), 16U);
}

TEST(Gathers, BringEveryValueOnceInCallsOfLimitedSize) {
  const std::vector<std::int64_t> lengths{5, 0, 12, 1};
  for (const std::size_t limit : {4U, 8U, 21U, 48U, 1U << 30U}) {
    std::vector<std::int64_t> gathered(lengths.size());
    std::size_t calls = 0;
    for_each_gather(lengths, limit, [&](std::span<const int> counts, std::span<const int> begins) {
      int begin = 0;
      for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
        EXPECT_EQ(begins[rank], begin);
        begin += counts[rank];
        gathered[rank] += counts[rank];
      }
      EXPECT_LE(static_cast<std::size_t>(begin), limit);
      ++calls;
    });

    EXPECT_EQ(gathered, lengths) << limit;
    EXPECT_EQ(calls, (12 + limit / 4 - 1) / (limit / 4)) << limit;
  }
  for_each_gather(std::vector<std::int64_t>(3), 100, [](auto, auto) { FAIL() << "there is nothing"; });
}

/// The sum of a tree that splits at the largest power of two below the count.
float tree_sum(std::span<const float> values) {
  if (values.size() == 1) return values[0];
  const std::size_t left = std::bit_floor(values.size() - 1);
  return tree_sum(values.first(left)) + tree_sum(values.subspan(left));
}

TEST(SumIntoAll, AddsInATreeWithinItsRange) {
  for (const std::size_t arrays : {1, 2, 3, 4, 5, 8}) {
    std::vector<std::vector<float>> values(arrays, std::vector<float>(5000));
    std::vector<float*> pointers;
    for (std::size_t r = 0; r < arrays; ++r) {
      for (std::size_t i = 0; i < 5000; ++i) values[r][i] = 1.0f / static_cast<float>(1 + i + 17 * r);
      pointers.push_back(values[r].data());
    }
    const std::vector<std::vector<float>> before = values;

    sum_into_all(pointers, 3, 4990);

    for (std::size_t i = 0; i < 5000; ++i) {
      std::vector<float> column;
      for (const auto& array : before) column.push_back(array[i]);
      const float sum = tree_sum(column);
      for (std::size_t r = 0; r < arrays; ++r) {
        ASSERT_EQ(values[r][i], i >= 3 && i < 4990 ? sum : before[r][i]) << arrays << " arrays, " << i;
      }
    }
  }
}

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

std::vector<std::pair<std::size_t, int>> cut(std::size_t total, std::size_t limit) {
  std::vector<std::pair<std::size_t, int>> pieces;
  for_each_piece(total, limit, [&](std::size_t offset, int count) { pieces.emplace_back(offset, count); });
  return pieces;
}

using Pieces = std::vector<std::pair<std::size_t, int>>;

TEST(Pieces, CoverTheWholeWithoutGaps) {
  EXPECT_EQ(cut(0, 4), (Pieces{}));
  EXPECT_EQ(cut(4, 4), (Pieces{{0, 4}}));
  EXPECT_EQ(cut(9, 4), (Pieces{{0, 4}, {4, 4}, {8, 1}}));
}

TEST(Pieces, FitAnIntHoweverLargeTheWhole) {
  const Pieces pieces = cut((std::size_t{1} << 31) + 5, largest_piece);

  EXPECT_EQ(pieces, (Pieces{{0, 1 << 30}, {std::size_t{1} << 30, 1 << 30}, {std::size_t{1} << 31, 5}}));
}

TEST(Environment, TellsTheLibrarysVersionBeforeMpiIsInitialised) {
  const std::string version = Environment::library_version();

  EXPECT_FALSE(version.empty());
  EXPECT_EQ(version.find_first_of(",:\n\t"), std::string::npos) << version;
  EXPECT_EQ(version.find("  "), std::string::npos) << version;
  EXPECT_NE(version.find_first_of("0123456789"), std::string::npos) << version;
}

}  // namespace
}  // namespace flotilla::mpi
