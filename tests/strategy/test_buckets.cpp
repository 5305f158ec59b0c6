// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "src/strategy/buckets.hpp"

namespace flotilla {
namespace {

ArenaLayout layout_of(const std::vector<std::int64_t>& sizes) {
  ArenaLayout layout;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    layout.add("t" + std::to_string(i), {sizes[i]}, ParameterKind::weight);
  return layout;
}

TEST(Buckets, CoverTheArenaFromItsEndToItsStartWithoutGaps) {
  for (const std::int64_t bytes : {1, 64, 1000, 5000, 1 << 20}) {
    const ArenaLayout layout = layout_of({100, 3, 2000, 17, 64, 500});

    const std::vector<Bucket> buckets = cut_buckets(layout, header_floats, bytes, bytes);

    EXPECT_EQ(buckets.front().end, header_floats + layout.size());
    EXPECT_EQ(buckets.back().begin, 0);
    int gradients = 0;
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      gradients += buckets[i].gradients;
      EXPECT_EQ(buckets[i].end, i == 0 ? header_floats + layout.size() : buckets[i - 1].begin);
    }
    EXPECT_EQ(gradients, 6);
  }
}

TEST(Buckets, EndWithASmallOneForTheFirstLayers) {
  const ArenaLayout layout = layout_of({256, 256, 4096, 4096, 4096, 4096});

  const std::vector<Bucket> buckets = cut_buckets(layout, header_floats, 32768, 1024);

  // The header (16) and t0 (256 floats) reach 1,024 bytes; then two tensors a bucket, tested after adding.
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[2].gradients, 1);
  EXPECT_EQ(buckets[1].gradients, 3);
  EXPECT_EQ(buckets[0].gradients, 2);
  EXPECT_EQ(buckets[2].end, header_floats + 256);
}

TEST(Buckets, HoldASmallModelInOne) {
  const ArenaLayout layout = layout_of({784 * 128, 128, 128 * 128, 128, 1280, 10});

  const std::vector<Bucket> buckets = cut_buckets(layout, header_floats, 32 << 20, 1 << 20);

  EXPECT_EQ(buckets.size(), 1U);
  EXPECT_EQ(describe(buckets), "6 gradients in 1 bucket: 0.45 MiB");
}

}  // namespace
}  // namespace flotilla
