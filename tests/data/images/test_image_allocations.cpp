// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "src/data/images/image_transform.hpp"
#include "tests/data/images/image_files.hpp"
#include "tests/support/allocation_count.hpp"

namespace flotilla {
namespace {

TEST(ImageTransform, AllocatesNothingOnceItHasSeenTheLargestImage) {
  const std::vector<test::Bytes> files = {
      test::jpeg(test::busy(150, 97)), test::jpeg(test::busy(60, 80), {.progressive = true}),
      test::png(test::busy(120, 140)), test::png(test::busy(50, 40), {.interlaced = true, .orientation = 6})};
  std::vector<float> to(3 * 32 * 32);
  for (const auto filter : {ResizeFilter::bilinear, ResizeFilter::antialias}) {
    const ImageTransformSpec spec{.size = 32,
                                  .short_side = 40,
                                  .filter = filter,
                                  .jitter = {.brightness = 0.1, .hue = 0.1},
                                  .exif_orientation = true};
    const auto training = make_training_transform(spec);
    const auto validation = make_validation_transform(spec);
    const auto all = [&] {
      for (std::uint64_t variation = 0; variation < 100; ++variation) {
        for (const test::Bytes& file : files) {
          training->apply(test::file_of(file), variation, to);
          validation->apply(test::file_of(file), variation, to);
        }
      }
    };
    all();
    const std::int64_t before = test::allocations_of_this_thread();

    all();

    EXPECT_EQ(test::allocations_of_this_thread() - before, 0);
    EXPECT_GT(before, 0);
  }
}

}  // namespace
}  // namespace flotilla
