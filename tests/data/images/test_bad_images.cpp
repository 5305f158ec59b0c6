// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/images/image_transform.hpp"
#include "tests/data/images/image_files.hpp"
#include "tests/support/messages.hpp"

namespace flotilla {
namespace {

using test::mentions;

constexpr std::int64_t size = 8;

/// What a transform to 8 x 8 pixels says about a file; "" if it takes it.
std::string reason(const test::Bytes& file, const ImageTransform& transform) {
  std::vector<float> to(3 * size * size);
  return test::error_of<BadImage>([&] { transform.apply(test::file_of(file), 1, to); });
}

/// What both transforms say about it.
std::string reason(const test::Bytes& file, ImageTransformSpec spec = {}) {
  spec.size = size;
  spec.short_side = size;
  std::vector<std::string> said;
  for (const auto& transform : {make_training_transform(spec), make_validation_transform(spec)})
    said.push_back(reason(file, *transform));
  EXPECT_EQ(said[0], said[1]);
  return said[0];
}

struct Bad {
  std::string file;
  std::string says;
};

TEST(BadImage, SaysWhatTheFileIsInstead) {
  using std::literals::string_literals::operator""s;
  const std::vector<Bad> files = {
      {"", "is an empty file"},
      {"GIF89a\1\0\1\0"s, "is a GIF image, not a JPEG or PNG image; convert it to JPEG or PNG"},
      {"BM\x46\0\0\0\0\0\0\0\x36\0"s, "is a BMP image"},
      {"RIFF\x24\0\0\0WEBPVP8 "s, "is a WebP image"},
      {"II*\0\x08\0\0\0"s, "is a TIFF image"},
      {"\0\0\0\x1C"
       "ftypavif"s,
       "is an AVIF image"},
      {"\0\0\0\x18"
       "ftypheic"s,
       "is an HEIC image"},
      {"\x1F\x8B\x08\0"s, "is a gzip file"},
      {"<!DOCTYPE html><html><body>404</body></html>", "is an HTML page"},
      {"\n  <HTML>\n", "is an HTML page"},
      {"<?xml version=\"1.0\"?><Error>AccessDenied</Error>", "is an SVG or XML file"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"},
      {"Not found\n", "is a text file"},
      {"Nicht gefunden: \xC3\xBC\n", "is a text file"},
      {std::string(100, '\0'), "begins with zeros"},
      {"\x01\x02\x03\x04", "is a file of an unknown kind, not a JPEG or PNG image"},
      {"\xFF\xD8", "is truncated: it ends after 2 bytes"},
      {"\x89PNG", "is truncated: it ends after 4 bytes"},
      {"\xFF\xD8\xFF", "is truncated"},
      {"\xFF\xD8\xFF\xE0\1\1\1\1\1\1\1\1\1", "is truncated"},
      {"\xFF\xD8\xFF\xD9", "libjpeg reports"},
      {"\x89PNG\r\n\x1A\n", "is truncated"},
      {"\x89PNG\r\n\x1A\n\0\0\0\x0DIDAT0000000000000000000000"s, "libpng reports"},
  };
  for (const Bad& bad : files) {
    EXPECT_TRUE(mentions(reason(test::bytes(bad.file)), {bad.says}))
        << "'" << bad.file << "': " << reason(test::bytes(bad.file));
  }
}

TEST(BadImage, TakesWhatTheBytesSayWhateverTheNameMayBe) {
  EXPECT_EQ(reason(test::jpeg(test::busy(20, 10))), "");
  EXPECT_EQ(reason(test::png(test::busy(20, 10))), "");
}

TEST(BadImage, IsWhatHasMorePixelsThanTheLimit) {
  for (const test::Bytes& file : {test::jpeg(test::busy(20, 10)), test::png(test::busy(20, 10))}) {
    EXPECT_EQ(reason(file, {.max_pixels = 200}), "");
    const std::string said = reason(file, {.max_pixels = 199});
    EXPECT_TRUE(mentions(said, {"has 20 x 10 = 200 pixels, more than data.max_pixels = 199"}));
  }
}

TEST(BadImage, IsADecompressionBombByItsHeaderAlone) {
  // The extent of a real file overwritten: 65500 x 65500 in its frame header.
  test::Bytes file = test::jpeg(test::busy(16, 16));
  const test::Bytes frame = {0xFF, 0xC0, 0x00, 0x11, 0x08};
  const auto at = std::search(file.begin(), file.end(), frame.begin(), frame.end());
  ASSERT_NE(at, file.end());
  for (int i = 0; i < 2; ++i) {
    at[5 + 2 * i] = 0xFF;
    at[6 + 2 * i] = 0xDC;
  }

  EXPECT_TRUE(mentions(reason(file), {"has 65500 x 65500 = 4290250000 pixels"}));
}

/// A progressive file whose last scan comes `more` times more.
test::Bytes with_scans(const test::Picture& picture, int more) {
  test::Bytes file = test::jpeg(picture, {.colours = test::JpegForm::grey, .progressive = true});
  const test::Bytes scan = {0xFF, 0xDA};
  const auto last = std::find_end(file.begin(), file.end(), scan.begin(), scan.end());
  const test::Bytes again(last, file.end() - 2);
  file.resize(file.size() - 2);
  for (int i = 0; i < more; ++i) file.insert(file.end(), again.begin(), again.end());
  file.insert(file.end(), {0xFF, 0xD9});
  return file;
}

TEST(BadImage, IsAProgressiveJpegOfThousandsOfScans) {
  const test::Picture flat = test::draw(
      16, 16, [](int, int, int) { return 128; }, 1);
  EXPECT_EQ(reason(with_scans(flat, 400)), "");
  const std::string said = reason(with_scans(flat, 4000));
  EXPECT_TRUE(mentions(said, {"has more than 500 scans of 16 x 16 pixels"}));
  EXPECT_EQ(reason(test::jpeg(flat, {.colours = test::JpegForm::grey, .progressive = true})), "");
}

TEST(BadImage, HasFewerScansTheLargerItIs) {
  // 2^31 pixels in all scans together.
  const test::Picture flat = test::draw(
      4096, 4096, [](int, int, int) { return 128; }, 1);
  const auto transform = make_validation_transform({.size = size, .short_side = size});
  const std::string said = reason(with_scans(flat, 200), *transform);
  EXPECT_TRUE(mentions(said, {"has more than 128 scans of 4096 x 4096 pixels"}));
}

TEST(BadImage, IsNoImageWithFiveColours) {
  test::Bytes file = test::jpeg(test::busy(16, 16));
  const test::Bytes frame = {0xFF, 0xC0, 0x00, 0x11, 0x08};
  const auto at = std::search(file.begin(), file.end(), frame.begin(), frame.end());
  at[9] = 5;

  EXPECT_TRUE(mentions(reason(file), {"libjpeg reports"}));
}

TEST(BadImage, LeavesTheNextImageAlone) {
  const ImageTransformSpec spec{.size = 8, .short_side = 8};
  const auto transform = make_training_transform(spec);
  std::vector<float> before(3 * 8 * 8);
  std::vector<float> after(3 * 8 * 8);
  for (const test::Bytes& good : {test::jpeg(test::busy(40, 30)), test::png(test::busy(40, 30))}) {
    transform->apply(test::file_of(good), 3, before);
    test::Bytes bad = good;
    bad.resize(bad.size() / 2);

    EXPECT_THROW(transform->apply(test::file_of(bad), 3, after), BadImage);
    transform->apply(test::file_of(good), 3, after);

    EXPECT_EQ(before, after);
  }
}

}  // namespace
}  // namespace flotilla
