// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "src/data/dataset.hpp"

namespace flotilla {
namespace {

std::unique_ptr<Dataset> open_shipped(const std::string& part) {
  const std::string folder = std::string(FLOTILLA_SOURCE_DIR) + "/inputs/data/mnist/";
  DataConfig data;
  data.mean = 0.0;
  data.std = 1.0 / 255.0;
  return open_dataset(data,
                      {.given = true,
                       .images = folder + part + "-images-idx3-ubyte.gz",
                       .labels = folder + part + "-labels-idx1-ubyte.gz"},
                      10, 1);
}

/// The labels from sample `begin` on.
std::vector<std::int32_t> labels_from(const Dataset& data, std::int64_t begin, std::int64_t count) {
  std::vector<float> sample(784);
  std::vector<std::int32_t> labels;
  for (std::int64_t i = begin; i < begin + count; ++i) labels.push_back(data.read(i, 0, sample));
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
  std::vector<float> sample(784);
  for (const std::int64_t i : {0, 4999, 9999}) {
    train->read(i, 0, sample);
    float ink = 0.0F;
    for (const float value : sample) ink += value;

    EXPECT_EQ(sample[0], 0.0F);
    EXPECT_GT(ink, 255.0F * 20.0F) << "sample " << i;
  }
}

}  // namespace
}  // namespace flotilla
