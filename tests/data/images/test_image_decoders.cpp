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
#include "tests/support/messages.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

constexpr Box everything{0, 0, 37, 29};
constexpr Box inside{5, 3, 21, 17};

/// Writes `stored` and expects `shown` of the whole and of a part, interlaced and not.
void expect_shown(test::PngForm form, const test::Picture& stored, const test::Picture& shown) {
  const auto decoder = make_png_decoder();
  for (const bool interlaced : {false, true}) {
    form.interlaced = interlaced;
    const test::Bytes file = test::png(stored, form);
    EXPECT_EQ(decoder->open(test::file_of(file)), (Extent{37, 29}));
    for (const Box& region : {everything, inside, Box{36, 28, 1, 1}}) {
      EXPECT_EQ(test::decode(*decoder, file, region).values, test::cut(shown, region).values)
          << "colour type " << form.colour_type << ", depth " << form.depth << ", interlaced " << interlaced
          << ", region at " << region.x << ", " << region.y;
    }
  }
}

TEST(PngDecoder, ShowsColoursAsTheyAreStored) {
  const test::Picture colours = test::pattern(37, 29);

  expect_shown({.colour_type = 2}, colours, colours);
  expect_shown({.colour_type = 2, .transparent = true}, colours, colours);
}

TEST(PngDecoder, TakesTheUpperByteOfSixteenBits) {
  const test::Picture colours = test::pattern(37, 29);

  expect_shown({.colour_type = 2, .depth = 16}, colours, colours);
}

TEST(PngDecoder, DropsAlphaAndKeepsTheColourBelow) {
  for (const int depth : {8, 16}) {
    const test::Picture rgba = test::pattern(37, 29, 4);
    const test::Picture grey_alpha = test::pattern(37, 29, 2);

    expect_shown({.colour_type = 6, .depth = depth}, rgba,
                 test::draw(37, 29, [&](int x, int y, int c) { return rgba.at(x, y, c); }));
    expect_shown({.colour_type = 4, .depth = depth}, grey_alpha,
                 test::draw(37, 29, [&](int x, int y, int) { return grey_alpha.at(x, y, 0); }));
  }
}

TEST(PngDecoder, SpreadsGreyOfAnyDepthOverAllValues) {
  for (const int depth : {1, 2, 4, 8, 16}) {
    const int levels = depth >= 8 ? 256 : 1 << depth;
    const test::Picture grey = test::draw(
        37, 29, [&](int x, int y, int) { return (x + 3 * y) % levels; }, 1);
    const test::Picture shown =
        test::draw(37, 29, [&](int x, int y, int) { return grey.at(x, y, 0) * 255 / (levels - 1); });

    expect_shown({.colour_type = 0, .depth = depth}, grey, shown);
    expect_shown({.colour_type = 0, .depth = depth, .transparent = true}, grey, shown);
  }
}

TEST(PngDecoder, LooksColoursUpInThePalette) {
  for (const int depth : {1, 2, 4, 8}) {
    const int entries = 1 << depth;
    const test::Picture indices = test::draw(
        37, 29, [&](int x, int y, int) { return (x * y + x) % entries; }, 1);
    test::PngForm form{.colour_type = 3, .depth = depth};
    for (int i = 0; i < 3 * entries; ++i) form.palette.push_back(static_cast<std::uint8_t>(250 - 7 * i));
    const test::Picture shown = test::draw(37, 29, [&](int x, int y, int c) {
      return form.palette[static_cast<std::size_t>(3 * indices.at(x, y, 0) + c)];
    });

    expect_shown(form, indices, shown);
    form.transparent = true;
    expect_shown(form, indices, shown);
  }
}

TEST(PngDecoder, RefusesDamagedDataAndWorksOnAfterwards) {
  const auto decoder = make_png_decoder();
  const test::Picture picture = test::busy(64, 48);
  const test::Bytes good = test::png(picture);
  test::Bytes bad = good;
  bad[bad.size() / 2] ^= 0x10;

  EXPECT_THROW(test::decode(*decoder, bad, {0, 0, 64, 48}), BadImage);
  EXPECT_EQ(test::decode(*decoder, good, {0, 0, 64, 48}).values, picture.values);
}

/// What both kinds of files have to bear.
struct Format {
  const char* name;
  std::unique_ptr<ImageDecoder> (*make_decoder)();
  test::Bytes (*write)(const test::Picture& picture, bool progressive);  ///< Or interlaced
  std::size_t signature;                                                 ///< Bytes that name the format
};

class ImageDecoders : public testing::TestWithParam<Format> {
 protected:
  test::Bytes write(const test::Picture& picture, bool progressive = false) const {
    return GetParam().write(picture, progressive);
  }
  const std::unique_ptr<ImageDecoder> decoder = GetParam().make_decoder();
};
INSTANTIATE_TEST_SUITE_P(Formats, ImageDecoders,
                         testing::Values(Format{"Jpeg", make_jpeg_decoder,
                                                [](const test::Picture& picture, bool progressive) {
                                                  return test::jpeg(picture, {.progressive = progressive});
                                                },
                                                2},
                                         Format{"Png", make_png_decoder,
                                                [](const test::Picture& picture, bool interlaced) {
                                                  return test::png(picture, {.interlaced = interlaced});
                                                },
                                                8}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(ImageDecoders, RefuseATruncatedFileWhereverTheRegionLies) {
  for (const bool progressive : {false, true}) {
    test::Bytes file = write(test::busy(200, 150), progressive);
    const std::size_t size = file.size();
    for (const std::size_t kept :
         {size - 1, size - 2, size - 4, size - 12, size - 100, size / 2, size / 10, std::size_t{20}}) {
      file.resize(kept);
      EXPECT_THROW(test::decode(*decoder, file, {0, 0, 200, 150}), BadImage) << kept << " of " << size;
      EXPECT_THROW(test::decode(*decoder, file, {0, 0, 20, 5}), BadImage) << kept << " of " << size;
    }
  }
}

TEST_P(ImageDecoders, LetBytesAfterTheEndPass) {
  test::Bytes file = write(test::busy(64, 48));
  const test::Picture whole = test::decode(*decoder, file, {0, 0, 64, 48});
  file.insert(file.end(), 1000, std::uint8_t{7});

  EXPECT_EQ(test::decode(*decoder, file, {3, 4, 20, 10}).values, test::cut(whole, {3, 4, 20, 10}).values);
}

TEST_P(ImageDecoders, SurviveAnyDamagedByte) {
  const test::Bytes good = write(test::busy(40, 30), GetParam().make_decoder == make_jpeg_decoder);
  std::size_t refused = 0;
  for (std::size_t at = GetParam().signature; at < good.size(); ++at) {
    test::Bytes bad = good;
    bad[at] ^= 0x5A;
    refused += test::error_of<BadImage>([&] {
                 const Extent extent = decoder->open(test::file_of(bad));
                 if (extent.width * extent.height > 100'000) return;
                 test::decode(*decoder, bad, {0, 0, extent.width, extent.height});
               }).empty()
                   ? 0
                   : 1;
  }
  // Every byte of a PNG file is covered by a check sum; some chunks need not be understood.
  EXPECT_GT(refused, GetParam().make_decoder == make_png_decoder ? good.size() / 2 : 0U);
}

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

TEST(JpegDecoder, SaysWhereATruncatedFileEnds) {
  const auto decoder = make_jpeg_decoder();
  test::Bytes file = test::jpeg(test::busy(200, 150));
  file.resize(file.size() / 2);

  EXPECT_TRUE(test::mentions(test::error_of<BadImage>([&] {
                               test::decode(*decoder, file, {0, 0, 200, 150});
                             }),
                             {cat(" ", file.size(), " bytes")}));
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

}  // namespace
}  // namespace flotilla
