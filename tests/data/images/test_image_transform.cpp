// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
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

}  // namespace
}  // namespace flotilla
