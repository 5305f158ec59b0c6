// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "src/data/images/image_transform.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

Box crop_of(std::uint64_t variation, const Extent& image, const ImageTransformSpec& spec = {}) {
  Random random(variation, random_augmentation);
  return random_crop(random, image, spec);
}

TEST(RandomCrop, LiesInsideTheImageWhateverItsShape) {
  for (const Extent& image : {Extent{400, 300}, {1, 1}, {2, 1}, {1, 50}, {1000, 3}, {7, 9}}) {
    for (std::uint64_t variation = 0; variation < 1000; ++variation) {
      const Box crop = crop_of(variation, image);

      ASSERT_GE(crop.x, 0);
      ASSERT_GE(crop.y, 0);
      ASSERT_GE(crop.width, 1);
      ASSERT_GE(crop.height, 1);
      ASSERT_LE(crop.x + crop.width, image.width);
      ASSERT_LE(crop.y + crop.height, image.height);
    }
  }
}

TEST(RandomCrop, DrawsAreaAspectAndPlaceEvenly) {
  // Crops of this area fit in whatever their aspect: no draw is repeated, which would bend the distributions.
  const ImageTransformSpec spec{.area_min = 0.08, .area_max = 0.2};
  constexpr int draws = 20000;
  double area = 0, area2 = 0, aspect = 0, aspect2 = 0, x = 0, y = 0;
  for (std::uint64_t variation = 0; variation < draws; ++variation) {
    const Box crop = crop_of(variation, {1000, 1000}, spec);
    const double share = static_cast<double>(crop.width * crop.height) / 1e6;
    const double log_aspect = std::log(static_cast<double>(crop.width) / static_cast<double>(crop.height));
    area += share, area2 += share * share;
    aspect += log_aspect, aspect2 += log_aspect * log_aspect;
    x += static_cast<double>(crop.x) / static_cast<double>(1000 - crop.width);
    y += static_cast<double>(crop.y) / static_cast<double>(1000 - crop.height);
  }

  // Of a uniform distribution of width w: deviation w/√12 of a value, w²/√180 of its squared distance from
  // the middle. Six deviations of the mean; sides are whole numbers, which is far less.
  const double deviations = 6 / std::sqrt(draws);
  const double width = 2 * std::log(4.0 / 3.0);
  EXPECT_TRUE(test::within(area / draws, 0.14, deviations * 0.12 / std::sqrt(12)));
  EXPECT_TRUE(test::within(area2 / draws - 0.14 * 0.14, 0.12 * 0.12 / 12,
                           deviations * (0.12 * 0.12 / std::sqrt(180) + 0.28 * 0.12 / std::sqrt(12))));
  EXPECT_TRUE(test::within(aspect / draws, 0, deviations * width / std::sqrt(12)));
  EXPECT_TRUE(test::within(aspect2 / draws, width * width / 12, deviations * width * width / std::sqrt(180)));
  EXPECT_TRUE(test::within(x / draws, 0.5, deviations / std::sqrt(12)));
  EXPECT_TRUE(test::within(y / draws, 0.5, deviations / std::sqrt(12)));
}

TEST(RandomCrop, TakesTheCentreOfAnImageTooLongForAnyDraw) {
  EXPECT_EQ(crop_of(1, {1000, 10}), (Box{493, 0, 13, 10}));  // 10 · 4/3, rounded
  EXPECT_EQ(crop_of(1, {10, 1000}), (Box{0, 493, 10, 13}));
}

TEST(RandomCrop, TakesTheWholeImageWhereNothingElseIsAllowed) {
  const ImageTransformSpec spec{.area_min = 1, .area_max = 1, .aspect_min = 1, .aspect_max = 1};

  EXPECT_EQ(crop_of(1, {40, 40}, spec), (Box{0, 0, 40, 40}));
}

TEST(RandomCrop, IsAFunctionOfTheVariation) {
  EXPECT_EQ(crop_of(5, {400, 300}), crop_of(5, {400, 300}));
  EXPECT_NE(crop_of(5, {400, 300}), crop_of(6, {400, 300}));
}

/// Values of torchvision 0.29: transforms.Resize(256) and CenterCrop.
TEST(ShortSide, IsMadeAsLongAsAskedAndTheOtherRoundedDown) {
  EXPECT_EQ(with_short_side({400, 533}, 256), (Extent{256, 341}));  // 341.12
  EXPECT_EQ(with_short_side({500, 375}, 256), (Extent{341, 256}));  // 341.33
  EXPECT_EQ(with_short_side({256, 300}, 256), (Extent{256, 300}));
  EXPECT_EQ(with_short_side({3, 2}, 256), (Extent{384, 256}));
  EXPECT_EQ(with_short_side({100, 100}, 256), (Extent{256, 256}));
}

TEST(CentreBegin, RoundsHalvesToEven) {
  EXPECT_EQ(centre_begin(256, 224), 16);
  EXPECT_EQ(centre_begin(225, 224), 0);  // 0.5
  EXPECT_EQ(centre_begin(227, 224), 2);  // 1.5
  EXPECT_EQ(centre_begin(229, 224), 2);  // 2.5
  EXPECT_EQ(centre_begin(231, 224), 4);  // 3.5
  EXPECT_EQ(centre_begin(224, 224), 0);
}

}  // namespace
}  // namespace flotilla
