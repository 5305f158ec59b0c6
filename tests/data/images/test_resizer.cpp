// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/images/resizer.hpp"
#include "tests/data/images/image_files.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

constexpr ByteScaling unchanged;

/// The rows of a part of a picture.
class PictureRows final : public RowSource {
 public:
  PictureRows(const test::Picture& picture, const Box& part) : row_(part.y) {
    for (int y = 0; y < picture.height; ++y) {
      for (int x = static_cast<int>(part.x); x < part.x + part.width; ++x) {
        pixels_.push_back(
            static_cast<Pixel>(picture.at(x, y, 0) | picture.at(x, y, 1) << 8 | picture.at(x, y, 2) << 16) |
            0xAB000000U);
      }
    }
    width_ = part.width;
  }
  void next(std::span<const Pixel*> rows) override {
    for (const Pixel*& row : rows) row = &pixels_.at(static_cast<std::size_t>(row_++ * width_));
  }

 private:
  std::vector<Pixel> pixels_;
  std::int64_t row_;
  std::int64_t width_ = 0;
};

std::vector<float> resize(Resizer& resizer, const test::Picture& picture, const AxisSpec& x,
                          const AxisSpec& y) {
  const Box part = resizer.prepare(x, y);
  PictureRows rows(picture, part);
  std::vector<float> to(static_cast<std::size_t>(3 * x.count * y.count));
  resizer.run(rows, unchanged, to);
  return to;
}

std::vector<float> resize(ResizeFilter filter, const test::Picture& picture, std::int64_t width,
                          std::int64_t height) {
  const auto resizer = make_resizer(filter);
  return resize(*resizer, picture, {picture.width, width, 0, width}, {picture.height, height, 0, height});
}

/// A weight of source pixel j for output i, from the definition, not normalized.
double weight(ResizeFilter filter, std::int64_t i, std::int64_t j, std::int64_t source, std::int64_t target) {
  const double scale = static_cast<double>(source) / static_cast<double>(target);
  const double centre = (static_cast<double>(i) + 0.5) * scale;
  if (filter == ResizeFilter::antialias) {
    return std::max(0.0, 1 - std::abs(static_cast<double>(j) + 0.5 - centre) / std::max(1.0, scale));
  }
  const double clamped = std::clamp(centre, 0.5, static_cast<double>(source) - 0.5);
  return std::max(0.0, 1 - std::abs(static_cast<double>(j) + 0.5 - clamped));
}

/// The weights of all source pixels for output i; those of the antialias filter have 22 bits, as Pillow's.
std::vector<double> weights(ResizeFilter filter, const AxisSpec& axis, std::int64_t i) {
  const std::int64_t place = axis.begin + (axis.mirrored ? axis.count - 1 - i : i);
  std::vector<double> result;
  double sum = 0;
  for (std::int64_t j = 0; j < axis.source; ++j) {
    result.push_back(weight(filter, place, j, axis.source, axis.target));
    sum += result.back();
  }
  for (double& value : result) {
    value /= sum;
    if (filter == ResizeFilter::antialias) value = std::round(value * 0x1p22) * 0x1p-22;
  }
  return result;
}

/// Value c of output (x, y): the weighted mean over all pixels, in double.
double naive(ResizeFilter filter, const test::Picture& p, const AxisSpec& ax, const AxisSpec& ay,
             std::int64_t x, std::int64_t y, int c) {
  const auto rounded = [&](double v) { return filter == ResizeFilter::antialias ? std::floor(v + 0.5) : v; };
  const std::vector<double> wx = weights(filter, ax, x);
  const std::vector<double> wy = weights(filter, ay, y);
  double sum = 0;
  for (int j = 0; j < p.height; ++j) {
    double row = 0;
    for (int i = 0; i < p.width; ++i) row += wx[static_cast<std::size_t>(i)] * p.at(i, j, c);
    sum += wy[static_cast<std::size_t>(j)] * rounded(row);
  }
  return rounded(sum);
}

struct Case {
  AxisSpec x, y;
};

const std::vector<Case> cases = {
    {{7, 3, 0, 3}, {5, 3, 0, 3}},
    {{7, 9, 0, 9, true}, {5, 11, 0, 11}},
    {{40, 13, 0, 13}, {31, 13, 0, 13, false}},
    {{61, 16, 3, 8}, {50, 20, 5, 8}},
    {{33, 32, 0, 32, true}, {65, 32, 0, 32}},
    {{1, 6, 0, 6}, {1, 6, 0, 6}},
    {{2, 5, 1, 3, true}, {3, 4, 1, 3}},
    {{90, 7, 0, 7}, {100, 7, 0, 7}},
    {{6, 6, 1, 4}, {9, 9, 2, 4}},
    {{19, 19, 0, 19}, {23, 40, 0, 40}},
    {{40, 26, 0, 26}, {87, 56, 0, 56}},  // rows first, however high the image is
};

TEST(Resizer, EqualsTheDefinitionOfEachFilter) {
  for (const auto filter : {ResizeFilter::bilinear, ResizeFilter::antialias}) {
    const auto resizer = make_resizer(filter);  // One for all: nothing of a case may reach the next.
    for (const Case& c : cases) {
      const test::Picture picture = test::pattern(static_cast<int>(c.x.source), static_cast<int>(c.y.source));

      const std::vector<float> values = resize(*resizer, picture, c.x, c.y);

      for (std::int64_t y = 0; y < c.y.count; ++y) {
        for (std::int64_t x = 0; x < c.x.count; ++x) {
          for (int colour = 0; colour < 3; ++colour) {
            const double expected = naive(filter, picture, c.x, c.y, x, y, colour);
            const float value = values[static_cast<std::size_t>((colour * c.y.count + y) * c.x.count + x)];
            // In float: four products and sums of values up to 255. In fixed point: exact.
            const double tolerance = filter == ResizeFilter::bilinear ? 8 * 255 * 0x1p-24 : 0;
            ASSERT_TRUE(test::within(value, expected, tolerance))
                << c.x.source << "x" << c.y.source << " at " << x << ", " << y << ", " << colour;
          }
        }
      }
    }
  }
}

/// Values of Pillow 11.3: Image.resize((3, 3), BILINEAR) of the pattern of 7 x 5.
TEST(Resizer, AntialiasEqualsPillow) {
  const std::vector<float> expected = {61,  144, 154, 157, 134, 133, 159, 141, 115, 144, 147, 98,  103, 122,
                                       141, 103, 131, 122, 157, 103, 110, 99,  123, 112, 155, 126, 142};

  EXPECT_EQ(resize(ResizeFilter::antialias, test::pattern(7, 5), 3, 3), expected);
}

/// Values of Pillow 11.3: the pattern enlarged to 9 x 9, red.
TEST(Resizer, AntialiasEnlargesAsPillow) {
  const std::vector<float> expected = {
      0,   25,  53,  82,  111, 140, 169, 197, 222, 20,  47,  78,  110, 142, 173, 158, 151, 178, 52,  84, 120,
      157, 193, 229, 139, 74,  106, 85,  120, 161, 178, 130, 171, 133, 111, 147, 118, 157, 203, 192, 39, 85,
      131, 177, 216, 151, 194, 181, 128, 90,  141, 113, 100, 143, 184, 212, 157, 86,  141, 174, 97,  51, 99,
      216, 154, 119, 132, 192, 120, 95,  117, 168, 236, 119, 97,  160, 223, 87,  93,  156, 210};

  std::vector<float> red = resize(ResizeFilter::antialias, test::pattern(7, 5), 9, 9);
  red.resize(81);

  EXPECT_EQ(red, expected);
}

/// Values of torch 2.15: interpolate(mode="bilinear", align_corners=False) of the pattern of 7 x 5 to 3 x 3,
/// red.
TEST(Resizer, BilinearEqualsTorch) {
  const std::vector<float> expected = {46.7778F,  141.6667F, 151.2222F, 157.3333F, 39.0000F,
                                       176.6666F, 154.1111F, 192.3333F, 116.7777F};

  const std::vector<float> values = resize(ResizeFilter::bilinear, test::pattern(7, 5), 3, 3);

  // The digits above, and sums of four products with weights that are rounded on both sides.
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(test::within(values[i], expected[i], 0.5e-4 + 16 * 255 * test::float_rounding)) << i;
}

TEST(Resizer, LeavesPixelsOfTheRightSizeAlone) {
  const test::Picture picture = test::pattern(50, 40);
  for (const auto filter : {ResizeFilter::bilinear, ResizeFilter::antialias}) {
    const auto resizer = make_resizer(filter);

    const std::vector<float> values = resize(*resizer, picture, {50, 50, 7, 32}, {40, 40, 4, 32});

    for (int i = 0; i < 3 * 32 * 32; ++i) {
      ASSERT_EQ(values[static_cast<std::size_t>(i)], picture.at(7 + i % 32, 4 + i / 32 % 32, i / 1024)) << i;
    }
  }
}

TEST(Resizer, MirrorsWhatItWouldGiveOtherwiseToTheBit) {
  const test::Picture picture = test::pattern(61, 47);
  for (const auto filter : {ResizeFilter::bilinear, ResizeFilter::antialias}) {
    const auto resizer = make_resizer(filter);
    const std::vector<float> straight = resize(*resizer, picture, {61, 20, 0, 20}, {47, 20, 0, 20});

    const std::vector<float> mirrored = resize(*resizer, picture, {61, 20, 0, 20, true}, {47, 20, 0, 20});

    for (std::size_t i = 0; i < straight.size(); ++i)
      ASSERT_EQ(mirrored[i], straight[i / 20 * 20 + 19 - i % 20]) << i;
  }
}

TEST(Resizer, AsksForThePartThatTheWantedPixelsDependOn) {
  const auto resizer = make_resizer(ResizeFilter::antialias);

  // Scale 2: output i is made of source 2 i − 1 … 2 i + 2.
  EXPECT_EQ(resizer->prepare({100, 50, 10, 5}, {60, 30, 0, 30}), (Box{19, 0, 12, 60}));
}

TEST(Resizer, ScalesAndShiftsEachColour) {
  const test::Picture picture = test::pattern(8, 8);
  const auto resizer = make_resizer(ResizeFilter::antialias);
  const Box part = resizer->prepare({8, 8, 0, 8}, {8, 8, 0, 8});
  PictureRows rows(picture, part);
  std::vector<float> values(3 * 64);

  resizer->run(rows, {.factor = {2, 4, 8}, .offset = {1, -1, 0.5F}}, std::span(values));

  EXPECT_EQ(values[9], 2.0F * static_cast<float>(picture.at(1, 1, 0)) + 1.0F);
  EXPECT_EQ(values[64 + 9], 4.0F * static_cast<float>(picture.at(1, 1, 1)) - 1.0F);
  EXPECT_EQ(values[128 + 9], 8.0F * static_cast<float>(picture.at(1, 1, 2)) + 0.5F);
}

TEST(Resizer, RefusesSizesThatDoNotFit) {
  const auto resizer = make_resizer(ResizeFilter::bilinear);

  EXPECT_THROW(resizer->prepare({0, 5, 0, 5}, {5, 5, 0, 5}), InternalError);
  EXPECT_THROW(resizer->prepare({5, 5, 1, 5}, {5, 5, 0, 5}), InternalError);
  EXPECT_THROW(resizer->prepare({5, 5, 0, 5}, {5, 5, 0, 5, true}), InternalError);
}

}  // namespace
}  // namespace flotilla
