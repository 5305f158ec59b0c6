// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "src/data/augmentation.hpp"
#include "src/data/loader.hpp"
#include "tests/data/byte_samples.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

/// Images (channels, 5, 7), whose byte c of pixel p of image i is (16 i + channels p + c) mod 251 + 3.
class Pictures final : public Dataset {
 public:
  explicit Pictures(std::int64_t channels) {
    set_facts({.size = 24,
               .shape = {channels, 5, 7},
               .description = "pictures",
               .scaling = ByteScaling{.factor = {0.02F, 0.01F, 0.04F}, .offset = {-2.0F, -1.5F, -2.5F}}});
  }
  std::int32_t read(std::int64_t i, std::uint64_t /*variation*/, std::span<float> to) const override {
    const ByteScaling scale = *scaling();
    const std::size_t plane = to.size() / static_cast<std::size_t>(sample_shape()[0]);
    for (std::size_t k = 0; k < to.size(); ++k) {
      const std::size_t c = k / plane;
      to[k] = static_cast<float>(value(i, k % plane * static_cast<std::size_t>(sample_shape()[0]) + c)) *
                  scale.factor[c] +
              scale.offset[c];
    }
    return 1;
  }
  std::int32_t read_bytes(std::int64_t i, std::uint64_t /*variation*/,
                          std::span<std::uint8_t> to) const override {
    for (std::size_t k = 0; k < to.size(); ++k) to[k] = value(i, k);
    return 1;
  }

 private:
  static std::uint8_t value(std::int64_t i, std::size_t k) {
    return static_cast<std::uint8_t>((16 * static_cast<std::size_t>(i) + k) % 251 + 3);
  }
};

/// Pixel by pixel from the definitions: torchvision's hflip, pad and crop, erase.
std::vector<int> naive(const std::vector<int>& image, std::int64_t height, std::int64_t width,
                       const Augmentation& a) {
  std::vector<int> result;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      if (a.erased.y <= y && y < a.erased.y + a.erased.height && a.erased.x <= x &&
          x < a.erased.x + a.erased.width) {
        result.push_back(-1);
        continue;
      }
      const std::int64_t from_y = y - a.down;
      std::int64_t from_x = x - a.right;
      const bool inside = 0 <= from_y && from_y < height && 0 <= from_x && from_x < width;
      if (a.flip) from_x = width - 1 - from_x;
      result.push_back(inside ? image[static_cast<std::size_t>(from_y * width + from_x)] : -2);
    }
  }
  return result;
}

TEST(Augmentation, EqualsItsDefinitionPixelByPixel) {
  constexpr std::int64_t height = 5;
  constexpr std::int64_t width = 7;
  std::vector<int> image(height * width);
  std::iota(image.begin(), image.end(), 0);
  for (const std::int64_t down : {0, 1, -1, 4, -5, 9}) {
    for (const std::int64_t right : {0, 1, -1, 6, -7, 20}) {
      for (const bool flip : {false, true}) {
        const Augmentation a{.flip = flip, .down = down, .right = right, .erased = {2, 1, 0, 3}};
        for (const std::int64_t erased : {0, 1, 4}) {
          Augmentation with = a;
          with.erased.width = erased;
          std::vector<float> pixels(image.begin(), image.end());
          std::vector<std::uint8_t> coloured;
          for (const int pixel : image)
            coloured.insert(coloured.end(), {static_cast<std::uint8_t>(pixel), 100, 200});
          constexpr float black = -2;
          constexpr float cover = -1;

          augment<float>(with, {pixels, width, {&black, 1}, {&cover, 1}});
          augment<std::uint8_t>(with, {coloured, width, std::vector<std::uint8_t>{250, 251, 252},
                                       std::vector<std::uint8_t>{240, 241, 242}});

          const std::vector<int> expected = naive(image, height, width, with);
          EXPECT_EQ(std::vector<int>(pixels.begin(), pixels.end()), expected) << down << " " << right;
          for (std::size_t i = 0; i < expected.size(); ++i) {
            const int e = expected[i];
            EXPECT_EQ(coloured[3 * i], e == -1 ? 240 : e == -2 ? 250 : e);
            EXPECT_EQ(coloured[3 * i + 2], e == -1 ? 242 : e == -2 ? 252 : 200);
          }
        }
      }
    }
  }
}

TEST(Augmentation, IsDrawnEvenlyAndWithinItsBounds) {
  const AugmentationSpec spec{.flip = 0.25, .padding = 4, .erase = 0.5};
  constexpr int n = 18000;
  int flips = 0;
  int erased = 0;
  std::map<std::int64_t, int> down;
  for (int i = 0; i < n; ++i) {
    Random random(static_cast<std::uint64_t>(i), random_augmentation, 1);
    const Augmentation a = draw_augmentation(random, 32, 32, spec);
    flips += a.flip ? 1 : 0;
    ++down[a.down];
    ASSERT_TRUE(a.right >= -4 && a.right <= 4);
    if (a.erased.height == 0) continue;
    ++erased;
    const double area = static_cast<double>(a.erased.height * a.erased.width) / 1024.0;
    ASSERT_GT(area, 0.012);  // sides are rounded
    ASSERT_LT(area, 0.36);
    ASSERT_LE(a.erased.y + a.erased.height, 32);
    ASSERT_LE(a.erased.x + a.erased.width, 32);
    ASSERT_LT(std::max(a.erased.height, a.erased.width), 32);
  }
  // Five standard deviations.
  EXPECT_TRUE(test::within(flips, 0.25 * n, 5 * std::sqrt(n * 0.25 * 0.75)));
  EXPECT_TRUE(test::within(erased, 0.5 * n, 5 * std::sqrt(n * 0.25)));
  ASSERT_EQ(down.size(), 9U);
  for (const auto& [shift, count] : down)
    EXPECT_TRUE(test::within(count, n / 9.0, 5 * std::sqrt(n / 9.0))) << shift;
}

TEST(Augmentation, ErasesRectanglesOfTheAspectAsked) {
  const AugmentationSpec tall{
      .erase = 1.0, .area_min = 0.1, .area_max = 0.1, .aspect_min = 2.0, .aspect_max = 3.0};
  for (std::uint64_t i = 0; i < 200; ++i) {
    Random random(i, random_augmentation, 1);
    const Box erased = draw_augmentation(random, 100, 100, tall).erased;
    ASSERT_GT(erased.width, 0);
    // The area is 1000 and the aspect 2 to 3, up to the rounding of the sides.
    const auto height = static_cast<double>(erased.height);
    const auto width = static_cast<double>(erased.width);
    EXPECT_LE((height - 0.5) / (width + 0.5), 3.0);
    EXPECT_GE((height + 0.5) / (width - 0.5), 2.0);
    EXPECT_LE((height - 0.5) * (width - 0.5), 1000.0);
    EXPECT_GE((height + 0.5) * (width + 0.5), 1000.0);
  }
}

TEST(AugmentedDataset, GivesTheSameBitsAsBytesAndAsFloats) {
  for (const std::int64_t channels : {1, 3}) {
    for (const std::int64_t operations : {0, 2}) {
      const auto data = augmented(
          std::make_unique<Pictures>(channels),
          {.flip = 0.5, .padding = 2, .erase = 0.7, .operations = {.count = operations, .magnitude = 15}},
          Pictures(channels).scaling().value());
      const auto size = static_cast<std::size_t>(data->sample_shape().size());
      int changed = 0;
      for (std::uint64_t variation = 0; variation < 40; ++variation) {
        std::vector<float> floats(size);
        std::vector<float> plain(size);
        std::vector<std::uint8_t> bytes(size);
        data->read(3, variation, floats);
        data->read_bytes(3, variation, bytes);
        Pictures(channels).read(3, 0, plain);

        EXPECT_EQ(test::scaled({.pixels = bytes, .shape = {1, channels, 5, 7}, .scaling = *data->scaling()}),
                  floats);
        changed += floats != plain ? 1 : 0;
      }
      EXPECT_GT(changed, 30);
    }
  }
}

/// Pictures whose values deviate from whole bytes by up to 0.4.
class UnevenPictures final : public Dataset {
 public:
  UnevenPictures() {
    set_facts({.size = bytes_.size(), .shape = bytes_.sample_shape(), .description = "uneven pictures"});
  }
  std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const override {
    const std::int32_t label = bytes_.read(i, variation, to);
    const std::size_t plane = to.size() / 3;
    for (std::size_t k = 0; k < to.size(); ++k)
      to[k] += (k % 2 == 0 ? 0.4F : -0.4F) * bytes_.scaling()->factor[k / plane];
    return label;
  }

 private:
  Pictures bytes_{3};
};

TEST(AugmentedDataset, RoundsToBytesBeforeOperationsAndErasesAfterThem) {
  const AugmentationSpec spec{
      .flip = 0.5, .padding = 2, .erase = 1.0, .operations = {.count = 2, .magnitude = 15}};
  const ByteScaling scaling = Pictures(3).scaling().value();
  const auto uneven = augmented(std::make_unique<UnevenPictures>(), spec, scaling);
  const auto even = augmented(std::make_unique<Pictures>(3), spec, scaling);
  for (std::uint64_t variation = 0; variation < 40; ++variation) {
    std::vector<float> rounded(105);
    std::vector<float> wanted(105);
    std::vector<std::uint8_t> step_by_step(105);
    uneven->read(3, variation, rounded);
    even->read(3, variation, wanted);
    EXPECT_EQ(rounded, wanted) << variation;

    Pictures(3).read_bytes(3, 0, step_by_step);
    const std::vector<std::uint8_t> black = {0, 0, 0};
    const std::vector<std::uint8_t> mean = {100, 150, 63};  // nearest to −offset / factor
    Random places(variation, random_augmentation, 1);
    Augmentation before = draw_augmentation(places, 5, 7, spec);
    const Augmentation after{.erased = std::exchange(before.erased, {})};
    augment<std::uint8_t>(before, {step_by_step, 7, black, mean});
    Random operations(variation, random_augmentation, 2);
    rand_augment(operations, spec.operations, {step_by_step, 7, 3});
    augment<std::uint8_t>(after, {step_by_step, 7, black, mean});
    EXPECT_EQ(test::scaled({.pixels = step_by_step, .shape = {1, 3, 5, 7}, .scaling = scaling}), wanted);
  }
}

TEST(AugmentedDataset, IsThatOfTheSampleAndTheEpochForAnyWorkers) {
  const auto data = augmented(std::make_unique<Pictures>(1),
                              {.flip = 0.5, .padding = 2, .erase = 0.5, .operations = {.count = 1}},
                              Pictures(1).scaling().value());
  const Sampler alone(3, {.samples = 24, .workers = 1, .batch = 8});
  const Sampler shared(3, {.samples = 24, .workers = 2, .batch = 4});
  const auto whole = make_training_loader(*data, alone, 0, {}, {.threads = 2, .sink = {}});
  const auto upper = make_training_loader(*data, shared, 0, {}, {.threads = 1, .sink = {}});
  const auto lower = make_training_loader(*data, shared, 1, {}, {.threads = 3, .sink = {}});
  const auto resumed = make_training_loader(*data, alone, 0, alone.after({}, 4), {.threads = 1, .sink = {}});
  for (int step = 0; step < 6; ++step) {
    const Batch& batch = whole->next();
    const std::vector<float> all(batch.images.begin(), batch.images.end());
    std::vector<float> halves;
    for (Loader* half : {upper.get(), lower.get()}) {
      const Batch& part = half->next();
      halves.insert(halves.end(), part.images.begin(), part.images.end());
    }

    EXPECT_EQ(halves, all) << step;
    if (step >= 4) {
      EXPECT_TRUE(std::ranges::equal(resumed->next().images, all));
    }
  }
}

}  // namespace
}  // namespace flotilla
