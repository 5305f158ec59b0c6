// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace flotilla
