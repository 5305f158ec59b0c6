// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "kernels/error.hpp"
#include "src/data/images/image_decoder.hpp"
#include "tests/data/images/decoded.hpp"

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

TEST(PngDecoder, RefusesATruncatedFileWhereverTheRegionLies) {
  const auto decoder = make_png_decoder();
  for (const bool interlaced : {false, true}) {
    test::Bytes file = test::png(test::busy(200, 150), {.interlaced = interlaced});
    const std::size_t size = file.size();
    for (const std::size_t kept :
         {size - 1, size - 4, size - 12, size - 100, size / 2, size / 10, std::size_t{20}}) {
      file.resize(kept);
      EXPECT_THROW(test::decode(*decoder, file, {0, 0, 200, 150}), BadImage) << kept << " of " << size;
      EXPECT_THROW(test::decode(*decoder, file, {0, 0, 20, 5}), BadImage) << kept << " of " << size;
    }
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

TEST(PngDecoder, SurvivesAnyDamagedByte) {
  const auto decoder = make_png_decoder();
  const test::Bytes good = test::png(test::busy(20, 10));
  int refused = 0;
  for (std::size_t at = 8; at < good.size(); ++at) {
    test::Bytes bad = good;
    bad[at] ^= 0x5A;
    try {
      const Extent extent = decoder->open(test::file_of(bad));
      test::decode(*decoder, bad, {0, 0, extent.width, extent.height});
    } catch (const BadImage&) {
      ++refused;
    }
  }
  // Every byte is covered by a check sum; some chunks need not be understood.
  EXPECT_GT(refused, static_cast<int>(good.size()) / 2);
}

TEST(PngDecoder, LetsBytesAfterTheEndPass) {
  const auto decoder = make_png_decoder();
  const test::Picture picture = test::busy(64, 48);
  test::Bytes file = test::png(picture);
  file.insert(file.end(), 100, std::uint8_t{7});

  EXPECT_EQ(test::decode(*decoder, file, {3, 4, 20, 10}).values, test::cut(picture, {3, 4, 20, 10}).values);
}

}  // namespace
}  // namespace flotilla
