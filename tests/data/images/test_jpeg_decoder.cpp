// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "src/data/images/image_decoder.hpp"
#include "tests/data/images/decoded.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

std::vector<test::JpegForm> forms() {
  std::vector<test::JpegForm> all;
  for (const auto& [x, y] : {std::pair{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}, {1, 4}}) {
    for (const bool progressive : {false, true}) {
      all.push_back({.sampling_x = x, .sampling_y = y, .progressive = progressive});
    }
  }
  all.push_back({.colours = test::JpegForm::grey});
  all.push_back({.colours = test::JpegForm::rgb, .sampling_x = 1, .sampling_y = 1});
  all.push_back({.restart_rows = 1});
  all.push_back({.arithmetic = true});
  all.push_back({.progressive = true, .arithmetic = true});
  return all;
}

std::string name(const test::JpegForm& form) {
  return cat("colours ", form.colours, ", sampling ", form.sampling_x, "x", form.sampling_y,
             form.progressive ? ", progressive" : "", form.arithmetic ? ", arithmetic" : "", ", restart ",
             form.restart_rows);
}

Box random_region(Random& random, int width, int height) {
  Box box;
  box.width = 1 + below(random, width);
  box.height = 1 + below(random, height);
  box.x = below(random, width - box.width + 1);
  box.y = below(random, height - box.height + 1);
  return box;
}

TEST(JpegDecoder, GivesAnyRegionTheValuesOfTheWholeImage) {
  const auto decoder = make_jpeg_decoder();
  Random random(1, random_data);
  for (const test::JpegForm& form : forms()) {
    for (const auto& [width, height] : {std::pair{97, 75}, {64, 48}, {131, 33}, {1, 9}, {9, 1}}) {
      const int channels = form.colours == test::JpegForm::grey ? 1 : 3;
      const test::Bytes file = test::jpeg(test::busy(width, height, channels), form);
      const test::Picture whole = test::decode_jpeg(file);
      for (int trial = 0; trial < 40; ++trial) {
        const Box region = random_region(random, width, height);

        const test::Picture part = test::decode(*decoder, file, region);

        ASSERT_EQ(part.values, test::cut(whole, region).values)
            << name(form) << ", " << width << "x" << height << ", region " << region.width << "x"
            << region.height << " at " << region.x << ", " << region.y;
      }
    }
  }
}

TEST(JpegDecoder, ReadsTheExtentFromTheHeader) {
  const auto decoder = make_jpeg_decoder();
  const test::Bytes file = test::jpeg(test::busy(31, 17));

  EXPECT_EQ(decoder->open(test::file_of(file)), (Extent{31, 17}));
}

TEST(JpegDecoder, TakesFourInksAsInverted) {
  const auto decoder = make_jpeg_decoder();
  // Stored is 255 − ink: light of a colour = stored colour · stored black / 255.
  const test::Picture inks = test::draw(
      48, 32, [](int x, int y, int c) { return c == 3 ? 255 - 4 * y : 255 - (x * 5 + c * 7) % 250; }, 4);
  for (const auto colours : {test::JpegForm::cmyk, test::JpegForm::ycck}) {
    const test::Bytes file =
        test::jpeg(inks, {.colours = colours, .sampling_x = 1, .sampling_y = 1, .quality = 100});
    const test::Picture stored = test::decode_jpeg(file);

    const test::Picture light = test::decode(*decoder, file, {0, 0, 48, 32});

    for (int y = 0; y < 32; ++y) {
      for (int x = 0; x < 48; ++x) {
        for (int c = 0; c < 3; ++c) {
          const double expected = stored.at(x, y, c) * stored.at(x, y, 3) / 255.0;
          ASSERT_EQ(light.at(x, y, c), std::lround(expected)) << x << ", " << y << ", " << c;
          // Quality 100 keeps values to a few units; the conversion from YCCK adds some.
          ASSERT_TRUE(test::within(expected, inks.at(x, y, c) * inks.at(x, y, 3) / 255.0, 8))
              << x << ", " << y;
        }
      }
    }
  }
}

TEST(JpegDecoder, RefusesATruncatedFileWhereverTheRegionLies) {
  const auto decoder = make_jpeg_decoder();
  for (const bool progressive : {false, true}) {
    test::Bytes file = test::jpeg(test::busy(200, 150), {.progressive = progressive});
    const std::size_t size = file.size();
    for (const std::size_t kept : {size - 1, size - 2, size - 100, size / 2, size / 10}) {
      file.resize(kept);
      EXPECT_THROW(test::decode(*decoder, file, {0, 0, 200, 150}), BadImage) << kept << " of " << size;
      EXPECT_THROW(test::decode(*decoder, file, {0, 0, 20, 5}), BadImage) << kept << " of " << size;
    }
  }
}

TEST(JpegDecoder, SaysWhereATruncatedFileEnds) {
  const auto decoder = make_jpeg_decoder();
  test::Bytes file = test::jpeg(test::busy(200, 150));
  file.resize(file.size() / 2);

  try {
    test::decode(*decoder, file, {0, 0, 200, 150});
    FAIL() << "half a file was decoded";
  } catch (const BadImage& error) {
    EXPECT_NE(std::string(error.what()).find(cat(" ", file.size(), " bytes")), std::string::npos)
        << error.what();
  }
}

TEST(JpegDecoder, LetsBytesAfterTheEndPass) {
  const auto decoder = make_jpeg_decoder();
  test::Bytes file = test::jpeg(test::busy(64, 48));
  const test::Picture whole = test::decode_jpeg(file);
  file.insert(file.end(), 1000, std::uint8_t{7});

  EXPECT_EQ(test::decode(*decoder, file, {3, 4, 20, 10}).values, test::cut(whole, {3, 4, 20, 10}).values);
}

TEST(JpegDecoder, WorksOnAfterABadFile) {
  const auto decoder = make_jpeg_decoder();
  const test::Bytes good = test::jpeg(test::busy(64, 48));
  test::Bytes bad = good;
  bad.resize(bad.size() / 2);

  EXPECT_THROW(test::decode(*decoder, bad, {0, 0, 64, 48}), BadImage);
  EXPECT_EQ(test::decode(*decoder, good, {0, 0, 64, 48}).values, test::decode_jpeg(good).values);
  const test::Bytes nothing = test::bytes("\xFF\xD8\xFFnothing of the kind");
  EXPECT_THROW(decoder->open(test::file_of(nothing)), BadImage);
  EXPECT_EQ(test::decode(*decoder, good, {0, 0, 64, 48}).values, test::decode_jpeg(good).values);
}

TEST(JpegDecoder, SurvivesAnyDamagedByte) {
  const auto decoder = make_jpeg_decoder();
  const test::Bytes good = test::jpeg(test::busy(40, 30), {.progressive = true});
  int refused = 0;
  for (std::size_t at = 2; at < good.size(); ++at) {
    test::Bytes bad = good;
    bad[at] ^= 0x5A;
    try {
      const Extent extent = decoder->open(test::file_of(bad));
      if (extent.width * extent.height > 100'000) continue;
      test::decode(*decoder, bad, {0, 0, extent.width, extent.height});
    } catch (const BadImage&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace flotilla
