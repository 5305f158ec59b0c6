// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/images/image_transform.hpp"
#include "src/data/images/orientation.hpp"
#include "tests/data/images/image_files.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

constexpr auto filters = {ResizeFilter::bilinear, ResizeFilter::antialias};

std::vector<float> sample(const ImageTransform& transform, const test::Bytes& file,
                          std::uint64_t variation = 0) {
  std::vector<float> to(static_cast<std::size_t>(transform.sample_shape().size()), -99.0F);
  transform.apply(test::file_of(file), variation, to);
  return to;
}

test::Picture rgb(const test::Picture& decoded) {
  return test::draw(decoded.width, decoded.height, [&](int x, int y, int c) { return decoded.at(x, y, c); });
}

TEST(ImageTransform, PassesPixelsOfTheRightSizeThrough) {
  const test::Picture picture = test::pattern(256, 299);
  const ImageTransformSpec defaults;
  for (const auto filter : filters) {
    const auto transform = make_validation_transform({.filter = filter});

    const std::vector<float> values = sample(*transform, test::png(picture));

    EXPECT_EQ(transform->sample_shape(), (Shape{3, 224, 224}));
    for (int i = 0; i < 3 * 224 * 224; ++i) {
      const int c = i / (224 * 224);
      const double mean = double{defaults.mean[static_cast<std::size_t>(c)]};
      const double deviation = double{defaults.deviation[static_cast<std::size_t>(c)]};
      // Offsets 16 and round(37.5); the result is rounded once or twice, its parts are below 4.5.
      const double expected = (picture.at(16 + i % 224, 38 + i / 224 % 224, c) / 255.0 - mean) / deviation;
      ASSERT_TRUE(test::within(values[static_cast<std::size_t>(i)], expected, 3 * 4.5 * 0x1p-24)) << i;
    }
  }
}

TEST(ImageTransform, GivesACropTheValuesThatTheWholeImageWouldGive) {
  for (const auto filter : filters) {
    const ImageTransformSpec spec{.size = 32, .short_side = 40, .filter = filter};
    const auto training = make_training_transform(spec);
    const auto validation = make_validation_transform(spec);
    for (const test::JpegForm& form :
         {test::JpegForm{}, {.sampling_x = 1, .sampling_y = 1}, {.progressive = true}}) {
      for (const auto& [width, height] : {std::pair{150, 97}, {97, 150}, {20, 33}}) {
        const test::Bytes file = test::jpeg(test::busy(width, height), form);
        const test::Bytes whole = test::png(rgb(test::decode_jpeg(file)));

        EXPECT_EQ(sample(*validation, file), sample(*validation, whole));
        for (std::uint64_t variation = 0; variation < 20; ++variation) {
          ASSERT_EQ(sample(*training, file, variation), sample(*training, whole, variation))
              << width << "x" << height << ", variation " << variation;
        }
      }
    }
  }
}

TEST(ImageTransform, IsAFunctionOfTheVariationInAnyThread) {
  const auto transform = make_training_transform(
      {.size = 24,
       .short_side = 24,
       .jitter = {.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1}});
  const test::Bytes one = test::jpeg(test::busy(90, 60));
  const test::Bytes other = test::png(test::busy(50, 70));
  constexpr std::uint64_t variations = 50;
  const auto all = [&] {
    std::vector<float> values;
    for (std::uint64_t variation = 0; variation < variations; ++variation) {
      for (const test::Bytes& file : {one, other}) {
        const std::vector<float> more = sample(*transform, file, variation);
        values.insert(values.end(), more.begin(), more.end());
      }
    }
    return values;
  };
  const std::vector<float> expected = all();
  std::vector<float> first;
  std::vector<float> second;

  std::thread a([&] { first = all(); });
  std::thread b([&] { second = all(); });
  a.join();
  b.join();

  EXPECT_EQ(first, expected);
  EXPECT_EQ(second, expected);
  EXPECT_NE(sample(*transform, one, 1), sample(*transform, one, 2));
}

TEST(ImageTransform, FlipsAsOftenAsAsked) {
  const test::Bytes file = test::png(test::pattern(16, 16));
  const auto flipped = [&](double probability) {
    const ImageTransformSpec spec{
        .size = 16, .short_side = 16, .area_min = 1, .aspect_min = 1, .aspect_max = 1, .flip = probability};
    const auto transform = make_training_transform(spec);
    const std::vector<float> straight = sample(*make_validation_transform(spec), file);
    std::vector<float> mirrored;
    for (std::size_t i = 0; i < straight.size(); ++i) mirrored.push_back(straight[i / 16 * 16 + 15 - i % 16]);
    int count = 0;
    for (std::uint64_t variation = 0; variation < 1000; ++variation) {
      const std::vector<float> values = sample(*transform, file, variation);
      EXPECT_TRUE(values == straight || values == mirrored);
      count += values == mirrored ? 1 : 0;
    }
    return count;
  };

  EXPECT_EQ(flipped(0), 0);
  EXPECT_EQ(flipped(1), 1000);
  EXPECT_TRUE(test::within(flipped(0.5), 500, 6 * 15.8));
}

/// The picture as stored under an EXIF orientation: where the first row and the first column of the file are
/// seen.
test::Picture stored(const test::Picture& upright, int orientation) {
  struct Sides {
    char row, column;
  };
  const std::vector<Sides> sides = {{'t', 'l'}, {'t', 'r'}, {'b', 'r'}, {'b', 'l'},
                                    {'l', 't'}, {'r', 't'}, {'r', 'b'}, {'l', 'b'}};
  const auto [row, column] = sides[static_cast<std::size_t>(orientation - 1)];
  const bool lies = row == 'l' || row == 'r';
  const auto from = [](char side, int at, int length) {
    return side == 'b' || side == 'r' ? length - 1 - at : at;
  };
  return test::draw(lies ? upright.height : upright.width, lies ? upright.width : upright.height,
                    [&, r = row, l = column](int x, int y, int c) {
                      if (lies)
                        return int{upright.at(from(r, y, upright.width), from(l, x, upright.height), c)};
                      return int{upright.at(from(l, x, upright.width), from(r, y, upright.height), c)};
                    });
}

TEST(ImageTransform, TurnsPhotographsUprightOnRequest) {
  const test::Picture upright = test::pattern(40, 30);
  for (const auto filter : filters) {
    ImageTransformSpec spec{.size = 12, .short_side = 14, .filter = filter, .exif_orientation = true};
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const test::Bytes file = test::png(stored(upright, orientation), {.orientation = orientation});

      EXPECT_EQ(sample(*make_validation_transform(spec), file),
                sample(*make_validation_transform(spec), test::png(upright)))
          << orientation;
      for (std::uint64_t variation = 0; variation < 10; ++variation) {
        EXPECT_EQ(sample(*make_training_transform(spec), file, variation),
                  sample(*make_training_transform(spec), test::png(upright), variation))
            << orientation;
      }
    }
    spec.exif_orientation = false;
    EXPECT_EQ(sample(*make_validation_transform(spec), test::png(upright, {.orientation = 3})),
              sample(*make_validation_transform(spec), test::png(upright)));
  }
}

TEST(ImageTransform, TurnsJpegFilesToo) {
  const test::JpegForm plain{.sampling_x = 1, .sampling_y = 1};
  const test::Picture upright = rgb(test::decode_jpeg(test::jpeg(test::pattern(40, 30), plain)));
  for (int orientation = 2; orientation <= 8; ++orientation) {
    test::JpegForm form = plain;
    form.orientation = orientation;
    const test::Bytes file = test::jpeg(stored(upright, orientation), form);
    const test::Bytes shown = test::png(rgb(test::decode_jpeg(file)), {.orientation = orientation});
    const auto transform =
        make_validation_transform({.size = 12, .short_side = 14, .exif_orientation = true});

    EXPECT_EQ(sample(*transform, file), sample(*transform, shown)) << orientation;
  }
}

TEST(ExifOrientation, IsReadInBothByteOrders) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool big_endian : {false, true}) {
      const test::Bytes file =
          test::jpeg(test::busy(8, 8), {.orientation = orientation, .big_endian = big_endian});
      EXPECT_EQ(exif_orientation(test::file_of(file)), orientation);
    }
    const test::Bytes file = test::png(test::busy(8, 8), {.orientation = orientation});
    EXPECT_EQ(exif_orientation(test::file_of(file)), orientation);
  }
}

TEST(ExifOrientation, IsUprightWhereThereIsNoneOrNonsense) {
  const test::Bytes good = test::jpeg(test::busy(8, 8), {.orientation = 6});
  EXPECT_EQ(exif_orientation(test::file_of(test::jpeg(test::busy(8, 8)))), 1);
  EXPECT_EQ(exif_orientation(test::file_of(test::png(test::busy(8, 8)))), 1);
  EXPECT_EQ(exif_orientation(test::file_of(test::jpeg(test::busy(8, 8), {.orientation = 9}))), 1);
  EXPECT_EQ(exif_orientation({}), 1);
  for (std::size_t kept = 0; kept < good.size(); ++kept) {
    test::Bytes bad = good;
    bad.resize(kept);
    const int orientation = exif_orientation(test::file_of(bad));
    EXPECT_TRUE(orientation == 1 || orientation == 6) << kept;
    bad = good;
    bad[kept] ^= 0xFF;
    EXPECT_GE(exif_orientation(test::file_of(bad)), 1);
    EXPECT_LE(exif_orientation(test::file_of(bad)), 8);
  }
}

TEST(ImageTransform, MakesASampleOfTheSmallestImages) {
  const ImageTransformSpec spec{.size = 20, .short_side = 24, .mean = {0, 0, 0}, .deviation = {1, 1, 1}};
  for (const auto& [width, height] : {std::pair{1, 1}, {2, 1}, {1, 3}, {5, 40}}) {
    const test::Picture flat = test::draw(width, height, [](int, int, int c) { return 51 * (c + 1); });
    for (const auto& transform : {make_training_transform(spec), make_validation_transform(spec)}) {
      const std::vector<float> values = sample(*transform, test::png(flat), 5);

      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_TRUE(test::within(values[i], 0.2 * static_cast<double>(i / 400 + 1), 4 * 0x1p-24))
            << width << "x" << height;
      }
    }
  }
}

TEST(ImageTransform, JittersColoursOnlyIfAsked) {
  const test::Bytes file = test::png(test::pattern(20, 20));
  ImageTransformSpec spec{
      .size = 20, .short_side = 20, .area_min = 1, .aspect_min = 1, .aspect_max = 1, .flip = 0};
  const std::vector<float> plain = sample(*make_validation_transform(spec), file);

  EXPECT_EQ(sample(*make_training_transform(spec), file, 7), plain);
  spec.jitter.brightness = 0.5;
  const std::vector<float> changed = sample(*make_training_transform(spec), file, 7);

  // One factor for all values, between 0.5 and 1.5; above 1 they are cut off.
  const auto unit = [&](const std::vector<float>& values, std::size_t i) {
    return values[i] * spec.deviation[i / 400] + spec.mean[i / 400];
  };
  const double factor = unit(changed, 2) / unit(plain, 2);
  EXPECT_GE(factor, 0.5);
  EXPECT_LE(factor, 1.5);
  EXPECT_NE(factor, 1);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(test::within(unit(changed, i), std::clamp(factor * unit(plain, i), 0.0, 1.0), 2e-6)) << i;
  }
}

TEST(ImageTransform, RefusesWhatCannotBeMade) {
  std::vector<float> small(10);
  const test::Bytes file = test::png(test::pattern(4, 4));

  EXPECT_THROW(make_training_transform({})->apply(test::file_of(file), 0, small), InternalError);
  EXPECT_THROW(make_validation_transform({})->apply(test::file_of(file), 0, small), InternalError);
  EXPECT_THROW(make_validation_transform({.size = 224, .short_side = 223}), InternalError);
  EXPECT_THROW(make_training_transform({.size = 0}), InternalError);
  EXPECT_THROW(make_training_transform({.area_min = 0}), InternalError);
  EXPECT_THROW(make_training_transform({.aspect_min = 2, .aspect_max = 1}), InternalError);
  EXPECT_THROW(make_training_transform({.deviation = {0, 1, 1}}), InternalError);
}

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

  // In a uniform distribution of width w a value has the deviation w/√12, and its squared distance from the
  // middle w²/√180. The bounds are six deviations of the mean; that sides are whole numbers matters far less.
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

using Kind = ColourChange::Kind;

/// Three columns and two rows; R, G, B.
std::vector<float> colours() {
  std::vector<float> planes = {0,   37,  74,  59,  107, 155, 83,  120, 157,
                               142, 190, 238, 166, 203, 240, 225, 17,  65};
  for (float& value : planes) value /= 255;
  return planes;
}

std::vector<float> changed(const ColourChange& change) {
  std::vector<float> planes = colours();
  change_colours(change, planes);
  return planes;
}

std::vector<float> changed(Kind kind, float amount) {
  ColourChange change;
  change.amount[kind] = amount;
  return changed(change);
}

void expect_near(const std::vector<float>& values, const std::vector<float>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  // Six digits below, and about ten roundings of values up to 4 (a hue in sixths).
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(test::within(values[i], expected[i], 5e-7 + 10 * 4 * 0x1p-24)) << i;
}

// Values of torchvision 0.29, transforms.functional.adjust_… of a float tensor.
TEST(Jitter, ChangesBrightnessAsTorchvision) {
  expect_near(
      changed(Kind::brightness, 1.4F),
      {0.000000F, 0.203137F, 0.406275F, 0.323922F, 0.587451F, 0.850980F, 0.455686F, 0.658824F, 0.861961F,
       0.779608F, 1.000000F, 1.000000F, 0.911373F, 1.000000F, 1.000000F, 1.000000F, 0.093333F, 0.356863F});
}

TEST(Jitter, ChangesContrastAsTorchvision) {
  expect_near(
      changed(Kind::contrast, 0.6F),
      {0.203780F, 0.290839F, 0.377898F, 0.342604F, 0.455545F, 0.568486F, 0.399074F, 0.486133F, 0.573192F,
       0.537898F, 0.650839F, 0.763780F, 0.594368F, 0.681427F, 0.768486F, 0.733192F, 0.243780F, 0.356721F});
}

TEST(Jitter, ChangesSaturationAsTorchvision) {
  expect_near(
      changed(Kind::saturation, 1.7F),
      {0.000000F, 0.000000F, 0.104524F, 0.045697F, 0.314058F, 0.502307F, 0.367641F, 0.512749F, 0.657858F,
       0.599030F, 0.867391F, 1.000000F, 0.920974F, 1.000000F, 1.000000F, 1.000000F, 0.000000F, 0.000000F});
}

TEST(Jitter, TurnsTheHueAsTorchvision) {
  expect_near(changed(Kind::hue, 0.2F), {0.455686F, 0.600784F, 0.745882F, 0.687058F, 0.066667F, 0.254902F,
                                         0.000000F, 0.145098F, 0.290196F, 0.231373F, 0.745098F, 0.933333F,
                                         0.650980F, 0.796078F, 0.941176F, 0.882353F, 0.527843F, 0.716079F});
  expect_near(changed(Kind::hue, -0.35F), {0.390588F, 0.535686F, 0.680785F, 0.621961F, 0.745098F, 0.933333F,
                                           0.650980F, 0.796078F, 0.941176F, 0.882353F, 0.066667F, 0.254902F,
                                           0.000000F, 0.145098F, 0.290196F, 0.231373F, 0.487451F, 0.675686F});
}

TEST(Jitter, ChangesOneAfterTheOtherInTheGivenOrder) {
  expect_near(
      changed({.order = {Kind::hue, Kind::contrast, Kind::saturation, Kind::brightness},
               .amount = {0.8F, 1.3F, 0.5F, 0.1F}}),
      {0.033639F, 0.146592F, 0.292245F, 0.234559F, 0.204148F, 0.363921F, 0.033639F, 0.112742F, 0.258394F,
       0.200708F, 0.548166F, 0.674804F, 0.328716F, 0.451251F, 0.550925F, 0.523827F, 0.223523F, 0.392062F});
}

TEST(Jitter, LeavesColoursAloneWithoutAChange) {
  EXPECT_EQ(changed(ColourChange{}), colours());
}

TEST(Jitter, DrawsAmountsFromTheirRangesInEveryOrder) {
  const ColorJitter jitter{.brightness = 0.4, .contrast = 2, .saturation = 0, .hue = 0.1};
  std::array<float, 4> low = {9, 9, 9, 9};
  std::array<float, 4> high = {-9, -9, -9, -9};
  std::map<std::array<Kind, 4>, int> orders;
  for (std::uint64_t variation = 0; variation < 4800; ++variation) {
    Random random(variation, random_augmentation);
    const ColourChange change = draw_colour_change(random, jitter);
    ++orders[change.order];
    for (std::size_t kind = 0; kind < 4; ++kind) {
      low[kind] = std::min(low[kind], change.amount[kind]);
      high[kind] = std::max(high[kind], change.amount[kind]);
    }
  }

  const std::array<float, 4> from = {0.6F, 0, 1, -0.1F};  // Contrast: max(0, 1 − 2)
  const std::array<float, 4> to = {1.4F, 3, 1, 0.1F};
  for (std::size_t kind = 0; kind < 4; ++kind) {
    EXPECT_GE(low[kind], from[kind]);
    EXPECT_LE(high[kind], to[kind]);
    // The chance that 4800 draws all miss the outer hundredth is 10^−21.
    EXPECT_LE(low[kind], from[kind] + (to[kind] - from[kind]) / 100);
    EXPECT_GE(high[kind], to[kind] - (to[kind] - from[kind]) / 100);
  }
  EXPECT_EQ(orders.size(), 24U);
  for (const auto& [order, count] : orders) EXPECT_TRUE(test::within(count, 200, 6 * 14.1));
}

}  // namespace
}  // namespace flotilla
