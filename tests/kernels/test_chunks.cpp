// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "kernels/flat/chunks.hpp"

namespace flotilla::flat {
namespace {

/// The number of visits of each value when the chunks are shared by `parts` threads.
std::vector<int> visits(const std::vector<FlatRange>& ranges, std::int64_t size, std::int64_t parts) {
  std::vector<int> count(static_cast<std::size_t>(size));
  const std::int64_t chunks = count_chunks(ranges);
  for (std::int64_t part = 0; part < parts; ++part) {
    walk_chunks(ranges, chunks * part / parts, chunks * (part + 1) / parts,
                [&](std::int64_t begin, std::int64_t end, const FlatRange&) {
                  EXPECT_LE(end - begin, chunk_values);
                  for (std::int64_t i = begin; i < end; ++i) ++count.at(static_cast<std::size_t>(i));
                });
  }
  return count;
}

TEST(Chunks, VisitEveryValueOnceWhateverTheParts) {
  const std::vector<FlatRange> ranges = {{.offset = 0, .count = 40000},
                                         {.offset = 40000, .count = 16384, .weight_decay = 0.1F},
                                         {.offset = 56384, .count = 1},
                                         {.offset = 56400, .count = 0, .weight_decay = 0.1F},
                                         {.offset = 56400, .count = 20000, .rate_factor = 2.0F}};
  std::vector<int> expected(76400, 1);
  for (std::size_t i = 56385; i < 56400; ++i) expected[i] = 0;

  for (std::int64_t parts = 1; parts <= 9; ++parts)
    EXPECT_EQ(visits(ranges, 76400, parts), expected) << parts;
}

TEST(Chunks, MergeRangesOfEqualConstantsAcrossPadding) {
  const std::vector<FlatRange> ranges = {
      {.offset = 0, .count = 10}, {.offset = 16, .count = 5}, {.offset = 32, .count = 1}};
  std::size_t index = 0;

  const FlatRange all = merged(ranges, index);

  EXPECT_EQ(index, 3U);
  EXPECT_EQ(all.count, 33);
}

TEST(Chunks, KeepApartWhatDiffersOrLeavesASliceOut) {
  const FlatRange range{.offset = 0, .count = 16};

  EXPECT_TRUE(continues(range, {.offset = 16, .count = 1}));
  EXPECT_FALSE(continues(range, {.offset = 32, .count = 1}));  // a slice of up to 16 values between them
  EXPECT_FALSE(continues(range, {.offset = 16, .count = 1, .weight_decay = 0.1F}));
  EXPECT_FALSE(continues(range, {.offset = 16, .count = 1, .rate_factor = 0.0F}));
  EXPECT_FALSE(continues({.offset = 32, .count = 16}, range));
}

}  // namespace
}  // namespace flotilla::flat
