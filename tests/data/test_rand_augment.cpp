// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "src/data/rand_augment.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

constexpr int operation_kinds = 14;
constexpr std::int64_t noise_width = 24;

std::vector<std::uint8_t> noise() {
  std::vector<std::uint8_t> pixels(std::size_t{noise_width * 32 * 3});
  Random random(1, random_data);
  for (std::uint8_t& value : pixels) value = static_cast<std::uint8_t>(20 + random.below(200));
  return pixels;
}

/// torchvision.transforms.RandAugment(magnitude=m)._augmentation_space(31, (128, 224)), torchvision 0.29.2.
TEST(RandAugment, HasTheMagnitudesOfTorchvision) {
  struct Case {
    ImageOperation operation;
    std::array<float, 4> at;  ///< 0, 9, 20, 30
  };
  using enum ImageOperation;
  for (const auto& [operation, at] : {Case{identity, {0, 0, 0, 0}},
                                      {shear_x, {0, 0.09F, 0.2F, 0.3F}},
                                      {shear_y, {0, 0.09F, 0.2F, 0.3F}},
                                      {translate_x, {0, 30, 67, 101}},
                                      {translate_y, {0, 17, 38, 58}},
                                      {rotate, {0, 9, 20, 30}},
                                      {brightness, {0, 0.27F, 0.6F, 0.9F}},
                                      {color, {0, 0.27F, 0.6F, 0.9F}},
                                      {contrast, {0, 0.27F, 0.6F, 0.9F}},
                                      {sharpness, {0, 0.27F, 0.6F, 0.9F}},
                                      {posterize, {8, 7, 5, 4}},
                                      {solarize, {255, 178.5F, 85, 0}},
                                      {auto_contrast, {0, 0, 0, 0}},
                                      {equalize, {0, 0, 0, 0}}}) {
    const std::array<std::int64_t, 4> magnitudes = {0, 9, 20, 30};
    for (std::size_t i = 0; i < at.size(); ++i)
      EXPECT_TRUE(test::within_float_roundings(magnitude_of(operation, magnitudes[i], 128, 224), at[i], 4))
          << static_cast<int>(operation);
  }
}

TEST(RandAugment, DrawsEachOperationAndDirectionEvenly) {
  std::map<std::vector<std::uint8_t>, int> numbers;  // of images that one operation makes
  std::vector<double> shares;
  for (int kind = 0; kind < operation_kinds; ++kind) {
    const auto operation = static_cast<ImageOperation>(kind);
    const float magnitude = magnitude_of(operation, 9, 32, noise_width);
    const bool signed_one = 1 <= kind && kind <= 9;
    for (const float sign : {1.0F, -1.0F}) {
      if (sign < 0 && !signed_one) continue;
      std::vector<std::uint8_t> pixels = noise();
      change_image({pixels, noise_width, 3}, operation, sign * magnitude);
      numbers.emplace(pixels, static_cast<int>(shares.size()));
      shares.push_back(signed_one ? 1.0 / 28.0 : 1.0 / 14.0);
    }
  }
  ASSERT_EQ(numbers.size(), 23U);  // all differ

  constexpr int n = 7000;
  std::vector<int> drawn(shares.size());
  for (std::uint64_t seed = 0; seed < n; ++seed) {
    Random random(seed, random_augmentation, 2);
    std::vector<std::uint8_t> pixels = noise();
    rand_augment(random, {.count = 1, .magnitude = 9}, {pixels, noise_width, 3});
    ASSERT_TRUE(numbers.contains(pixels));
    ++drawn[static_cast<std::size_t>(numbers.at(pixels))];
  }
  for (std::size_t k = 0; k < shares.size(); ++k)  // five standard deviations
    EXPECT_TRUE(test::within(drawn[k], n * shares[k], 5 * std::sqrt(n * shares[k]))) << k;
}

TEST(RandAugment, AppliesOperationsOneAfterTheOther) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed, random_augmentation, 2);
    std::vector<std::uint8_t> one_by_one = noise();
    for (int i = 0; i < 3; ++i)
      rand_augment(random, {.count = 1, .magnitude = 20}, {one_by_one, noise_width, 3});
    Random again(seed, random_augmentation, 2);
    std::vector<std::uint8_t> at_once = noise();
    rand_augment(again, {.count = 3, .magnitude = 20}, {at_once, noise_width, 3});
    EXPECT_EQ(at_once, one_by_one) << seed;
  }
}

// Numbers that are not derived here were computed by torchvision 0.29.2 from PIL images (Pillow 13.0.0):
// torchvision.transforms.autoaugment._apply_op with InterpolationMode.NEAREST.

using Pixels = std::vector<std::uint8_t>;

Pixels changed(Pixels pixels, std::int64_t width, std::int64_t channels, ImageOperation operation,
               float magnitude) {
  change_image({pixels, width, channels}, operation, magnitude);
  return pixels;
}

/// Grey, 5 rows of 6 pixels: 10 y + x + 1.
Pixels moved(ImageOperation operation, float magnitude) {
  Pixels image;
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 6; ++x) image.push_back(static_cast<std::uint8_t>(10 * y + x + 1));
  }
  return changed(image, 6, 1, operation, magnitude);
}

/// 3 rows of 3 pixels of red, green, blue.
const Pixels colours = {0,  50,  100, 37,  87,  137, 148, 198, 248, 91,  141, 191, 128, 201,
                        18, 239, 79,  175, 182, 232, 26,  219, 59,  155, 74,  216, 102};

Pixels coloured(ImageOperation operation, float magnitude) {
  return changed(colours, 3, 3, operation, magnitude);
}

TEST(ImageOperations, MovePixelsAsTorchvision) {
  EXPECT_EQ(moved(ImageOperation::identity, 0.0F), moved(ImageOperation::rotate, 0.0F));
  EXPECT_EQ(moved(ImageOperation::shear_x, 0.3F),
            (Pixels{1,  2,  3, 4,  5,  6,  11, 12, 13, 14, 15, 16, 22, 23, 24,
                    25, 26, 0, 32, 33, 34, 35, 36, 0,  42, 43, 44, 45, 46, 0}));
  EXPECT_EQ(moved(ImageOperation::shear_y, -0.3F),
            (Pixels{1,  2,  0, 0,  0,  0,  11, 12, 3,  4,  5,  0,  21, 22, 13,
                    14, 15, 6, 31, 32, 23, 24, 25, 16, 41, 42, 33, 34, 35, 26}));
  EXPECT_EQ(moved(ImageOperation::translate_x, 2.0F),
            (Pixels{0,  0,  1,  2, 3, 4,  0,  0,  11, 12, 13, 14, 0,  0,  21,
                    22, 23, 24, 0, 0, 31, 32, 33, 34, 0,  0,  41, 42, 43, 44}));
  EXPECT_EQ(moved(ImageOperation::translate_y, -1.0F),
            (Pixels{11, 12, 13, 14, 15, 16, 21, 22, 23, 24, 25, 26, 31, 32, 33,
                    34, 35, 36, 41, 42, 43, 44, 45, 46, 0,  0,  0,  0,  0,  0}));
  EXPECT_EQ(moved(ImageOperation::rotate, 30.0F),
            (Pixels{0,  3,  4,  15, 16, 0,  2,  3,  14, 14, 25, 26, 11, 12, 23,
                    24, 35, 36, 21, 22, 33, 33, 44, 45, 0,  31, 32, 43, 44, 0}));
}

TEST(ImageOperations, MoveWholePixelsOfColours) {
  EXPECT_EQ(coloured(ImageOperation::translate_x, -1.0F),
            (Pixels{37,  87, 137, 148, 198, 248, 0,   0,  0,   128, 201, 18, 239, 79,
                    175, 0,  0,   0,   219, 59,  155, 74, 216, 102, 0,   0,  0}));
}

TEST(ImageOperations, ChangeColoursAsTorchvision) {
  EXPECT_EQ(coloured(ImageOperation::brightness, 0.27F),
            (Pixels{0,  63,  127, 46,  110, 173, 187, 251, 255, 115, 179, 242, 162, 255,
                    22, 255, 100, 222, 231, 255, 33,  255, 74,  196, 93,  255, 129}));
  EXPECT_EQ(coloured(ImageOperation::color, 0.27F),
            (Pixels{0, 52,  115, 25,  89,  152, 136, 200, 255, 79,  143, 206, 119, 212,
                    0, 255, 63,  184, 178, 242, 0,   246, 43,  164, 50,  230, 86}));
  EXPECT_EQ(coloured(ImageOperation::color, -0.9F),
            (Pixels{36,  41,  46,  73,  78,  83,  184, 189, 194, 127, 132, 137, 155, 162,
                    144, 148, 132, 141, 192, 197, 177, 128, 112, 121, 152, 166, 155}));
  EXPECT_EQ(coloured(ImageOperation::contrast, -0.27F),
            (Pixels{36, 72,  109, 63,  99,  136, 144, 180, 217, 102, 139, 175, 129, 182,
                    49, 210, 93,  163, 169, 205, 55,  196, 79,  149, 90,  193, 110}));
  EXPECT_EQ(coloured(ImageOperation::posterize, 3.0F),
            (Pixels{0, 32,  96, 32,  64,  128, 128, 192, 224, 64,  128, 160, 128, 192,
                    0, 224, 64, 160, 160, 224, 0,   192, 32,  128, 64,  192, 96}));
  EXPECT_EQ(coloured(ImageOperation::solarize, 178.5F),
            (Pixels{0,  50, 100, 37,  87, 137, 148, 57, 7,  91,  141, 64, 128, 54,
                    18, 16, 79,  175, 73, 23,  26,  36, 59, 155, 74,  39, 102}));
  EXPECT_EQ(coloured(ImageOperation::auto_contrast, 0.0F),
            (Pixels{0, 0,   90, 39,  51,  131, 157, 207, 255, 97,  127, 191, 136, 211,
                    0, 255, 40, 174, 194, 255, 8,   233, 12,  151, 78,  232, 93}));
}

TEST(ImageOperations, SharpenWhatIsNotAtTheBorder) {
  Pixels sharp = colours;  // torchvision's middle pixel, all others as they were
  sharp[12] = 130;
  sharp[13] = 238;
  sharp[14] = 0;
  EXPECT_EQ(coloured(ImageOperation::sharpness, 0.9F), sharp);
  sharp[12] = 125;
  sharp[13] = 163;
  sharp[14] = 86;
  EXPECT_EQ(coloured(ImageOperation::sharpness, -0.9F), sharp);
  EXPECT_EQ(changed({7, 9, 200, 3}, 2, 1, ImageOperation::sharpness, 0.9F), (Pixels{7, 9, 200, 3}));
  // The mean alone: 7 / 13, rounded.
  EXPECT_EQ(changed({7, 0, 0, 0, 0, 0, 0, 0, 0}, 3, 1, ImageOperation::sharpness, -1.0F),
            (Pixels{7, 0, 0, 0, 1, 0, 0, 0, 0}));
}

TEST(ImageOperations, LeaveTheColourOfGreyImagesAlone) {
  EXPECT_EQ(moved(ImageOperation::color, 0.9F), moved(ImageOperation::identity, 0.0F));
}

TEST(ImageOperations, LeaveConstantChannelsAlone) {
  const Pixels constant(12, 93);
  EXPECT_EQ(changed(constant, 2, 3, ImageOperation::auto_contrast, 0.0F), constant);
  EXPECT_EQ(changed(constant, 2, 3, ImageOperation::equalize, 0.0F), constant);
}

/// 7 · (255 / 9) − 255 / 9 is 170 less one rounding, and is cut to 169; so is 255 to 254.
TEST(ImageOperations, RoundAutoContrastAsTorchvision) {
  EXPECT_EQ(changed({1, 7, 10}, 3, 1, ImageOperation::auto_contrast, 0.0F), (Pixels{0, 169, 254}));
}

TEST(ImageOperations, EqualizeByCountsOfValues) {
  // 301 pixels of 10, 400 of 20, 50 of 200: a step is (301 + 400) / 255 = 2 pixels, the first value is
  // (2 / 2) / 2 = 0, the second (1 + 301) / 2 = 151, the last (1 + 701) / 2 = 351, cut to 255.
  Pixels image(751, 10);
  std::fill(image.begin() + 301, image.begin() + 701, std::uint8_t{20});
  std::fill(image.begin() + 701, image.end(), std::uint8_t{200});
  Pixels expected(751, 0);
  std::fill(expected.begin() + 301, expected.begin() + 701, std::uint8_t{151});
  std::fill(expected.begin() + 701, expected.end(), std::uint8_t{255});
  EXPECT_EQ(changed(image, 1, 1, ImageOperation::equalize, 0.0F), expected);
  // Fewer than 255 pixels below the last value: as they are.
  EXPECT_EQ(coloured(ImageOperation::equalize, 0.0F), colours);
}

}  // namespace
}  // namespace flotilla
