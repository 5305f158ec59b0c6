// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/dataset.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/data/read_samples.hpp"
#include "tests/support/in_folder.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

std::unique_ptr<Dataset> open(const std::string& images, const std::string& labels, double mean = 0.0,
                              double std = 1.0 / 255.0) {
  DataConfig data;
  data.mean = mean;
  data.std = std;
  return open_dataset(data, test::idx_source(images, labels), 10, 1);
}

/// Every sample holds what tests/data/idx_files.hpp wrote; pixels unscaled.
void expect_written(const Dataset& data, std::int64_t pixels) {
  for (std::int64_t i = data.size() - 1; i >= 0; --i) {
    const test::LabelledSample sample = test::sample_of(data, i);
    ASSERT_EQ(sample.label, i % 10) << "label " << i;
    for (std::int64_t p = 0; p < pixels; ++p) {
      ASSERT_TRUE(test::within_float_roundings(sample.values[static_cast<std::size_t>(p)],
                                               static_cast<float>(test::pixel(i, p)), 4))
          << "image " << i << ", pixel " << p;
    }
  }
}

using IdxDatasets = test::InFolder;

TEST_F(IdxDatasets, ReadsPlainFiles) {
  test::save(folder.path("images"), test::images(25, 7, 13));
  test::save(folder.path("labels"), test::labels(25, 10));

  const auto data = open(folder.path("images"), folder.path("labels"));

  EXPECT_EQ(data->size(), 25);
  EXPECT_EQ(data->sample_shape(), (Shape{1, 7, 13}));
  EXPECT_EQ(data->description(), "25 images 7x13 of images");
  expect_written(*data, 7 * 13);
}

TEST_F(IdxDatasets, TellsGzipByItsContentsAndSaysWhereItInflates) {
  test::save(folder.path("images.idx"), test::gzip(test::images(30, 28, 28)));
  test::save(folder.path("labels.gz"), test::labels(30, 10));

  const auto data = open(folder.path("images.idx"), folder.path("labels.gz"));

  EXPECT_EQ(data->sample_shape(), (Shape{1, 28, 28}));
  EXPECT_TRUE(test::mentions(data->description(), {"(0.0 MB inflated in /"}));
  expect_written(*data, 28 * 28);
}

/// Numbers of one byte as those of another type.
test::Bytes widened(const test::Bytes& file, std::size_t header_bytes, int type) {
  test::Bytes bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(header_bytes));
  bytes[2] = static_cast<std::uint8_t>(type);
  for (std::size_t k = header_bytes; k < file.size(); ++k) {
    std::uint64_t bits = file[k];
    std::size_t width = type == 0x0B ? 2 : 4;
    if (type == 0x0D) bits = std::bit_cast<std::uint32_t>(static_cast<float>(file[k]));
    if (type == 0x0E) {
      bits = std::bit_cast<std::uint64_t>(static_cast<double>(file[k]));
      width = 8;
    }
    for (std::size_t at = width; at-- > 0;) bytes.push_back(static_cast<std::uint8_t>(bits >> (8 * at)));
  }
  return bytes;
}

TEST_F(IdxDatasets, ConvertsNumbersOfOtherTypes) {
  for (const int type : {0x0B, 0x0C, 0x0D, 0x0E}) {
    const test::Bytes images = widened(test::images(50, 30, 31), 16, type);
    test::save(folder.path("images"), images);
    test::save(folder.path("labels"), test::gzip(widened(test::labels(50, 10), 8, type)));
    const auto data = open(folder.path("images"), folder.path("labels"));
    EXPECT_TRUE(test::mentions(data->description(), {"(0.0 MB converted in /"}));
    expect_written(*data, 30 * 31);
    test::save(folder.path("images"), test::gzip(images));
    expect_written(*open(folder.path("images"), folder.path("labels")), 30 * 31);
  }
}

TEST_F(IdxDatasets, TakesTheClassOfQmnistsLabels) {
  test::save(folder.path("images"), test::images(12, 3, 4));
  test::Bytes labels = test::header({0x00000C02, 12, 8});
  for (std::uint32_t i = 0; i < 12; ++i)
    labels = test::join(labels, test::header({i % 10, 4, 1000 + i, 7, 5, 70000, 0, 0}));
  for (const test::Bytes& file : {labels, test::gzip(labels)}) {
    test::save(folder.path("labels"), file);
    expect_written(*open(folder.path("images"), folder.path("labels")), 12);
  }
}

TEST_F(IdxDatasets, ReadsImagesLargerThanOneChunkAndFilesLargerThanOneBlock) {
  test::save(folder.path("images"), test::gzip(test::images(21, 130, 127)));
  test::save(folder.path("labels"), test::gzip(test::labels(21, 10)));

  const auto data = open(folder.path("images"), folder.path("labels"));

  expect_written(*data, 130 * 127);
}

TEST_F(IdxDatasets, ReadsSeveralGzipMembersAsOne) {
  const test::Bytes whole = test::images(4, 5, 5);
  const test::Bytes first = test::gzip({whole.begin(), whole.begin() + 50});
  const test::Bytes second = test::gzip({whole.begin() + 50, whole.end()});
  test::save(folder.path("images"), test::join(first, second));
  test::save(folder.path("labels"), test::labels(4, 10));

  const auto data = open(folder.path("images"), folder.path("labels"));

  expect_written(*data, 25);
}

TEST_F(IdxDatasets, ScalesPixelsByMeanAndDeviation) {
  test::Bytes all(256);
  std::iota(all.begin(), all.end(), std::uint8_t{0});
  test::save(folder.path("images"), test::join(test::header({2051, 1, 16, 16}), all));
  test::save(folder.path("labels"), test::labels(1, 10));
  const double mean = 0.1307;
  const double std = 0.3081;

  const std::vector<float> sample =
      test::values_of(*open(folder.path("images"), folder.path("labels"), mean, std), 0);

  for (int p = 0; p < 256; ++p) {
    const double exact = (p / 255.0 - mean) / std;
    // Two rounded constants, a product and a difference, each rounded relative to its own size.
    const double most = p / (255.0 * std) + mean / std;
    EXPECT_TRUE(test::within(sample[static_cast<std::size_t>(p)], exact,
                             2 * std::numeric_limits<float>::epsilon() * most))
        << p;
  }
}

TEST_F(IdxDatasets, RefusesASpanOfTheWrongSizeAndSamplesThatAreNotThere) {
  test::save(folder.path("images"), test::images(3, 2, 2));
  test::save(folder.path("labels"), test::labels(3, 10));
  const auto data = open(folder.path("images"), folder.path("labels"));
  std::vector<float> sample(4);

  EXPECT_THROW(data->read(3, 0, sample), InternalError);
  EXPECT_THROW(data->read(-1, 0, sample), InternalError);
  EXPECT_THROW(data->read(0, 0, std::span(sample).first(3)), InternalError);
}

std::unique_ptr<Dataset> open_shipped(const std::string& part) {
  const std::string folder = std::string(FLOTILLA_SOURCE_DIR) + "/inputs/data/mnist/";
  DataConfig data;
  data.mean = 0.0;
  data.std = 1.0 / 255.0;
  return open_dataset(
      data,
      test::idx_source(folder + part + "-images-idx3-ubyte.gz", folder + part + "-labels-idx1-ubyte.gz"), 10,
      1);
}

/// The labels from sample `begin` on.
std::vector<std::int32_t> labels_from(const Dataset& data, std::int64_t begin, std::int64_t count) {
  std::vector<std::int32_t> labels;
  for (std::int64_t i = begin; i < begin + count; ++i) labels.push_back(test::sample_of(data, i).label);
  return labels;
}

TEST(ShippedMnist, HasTheFirstDigitsOfTheOriginal) {
  const auto train = open_shipped("train");
  const auto test = open_shipped("t10k");

  EXPECT_EQ(train->size(), 10000);
  EXPECT_EQ(test->size(), 2000);
  EXPECT_EQ(train->sample_shape(), (Shape{1, 28, 28}));
  EXPECT_EQ(labels_from(*train, 0, 10), (std::vector<std::int32_t>{5, 0, 4, 1, 9, 2, 1, 3, 1, 4}));
  EXPECT_EQ(labels_from(*test, 0, 10), (std::vector<std::int32_t>{7, 2, 1, 0, 4, 1, 4, 9, 5, 9}));
}

TEST(ShippedMnist, HasItsMarginBlackAndItsDigitsInk) {
  const auto train = open_shipped("train");
  for (const std::int64_t i : {0, 4999, 9999}) {
    const std::vector<float> sample = test::values_of(*train, i);
    float ink = 0.0F;
    for (const float value : sample) ink += value;

    EXPECT_EQ(sample[0], 0.0F);
    EXPECT_GT(ink, 255.0F * 20.0F) << "sample " << i;
  }
}

}  // namespace
}  // namespace flotilla
