// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/dataset.hpp"
#include "tests/data/read_samples.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

std::unique_ptr<Dataset> open_random(std::vector<std::int64_t> shape, std::int64_t samples,
                                     std::uint64_t seed = 1) {
  DataConfig data;
  data.kind = DataKind::random;
  data.shape = std::move(shape);
  return open_dataset(data, {.given = true, .images = {}, .labels = {}, .samples = samples}, 2, seed);
}

TEST(RandomDataset, HasTheShapeAndSizeAskedFor) {
  const auto flat = open_random({32}, 128);
  const auto image = open_random({3, 8, 4}, 5);

  EXPECT_EQ(flat->size(), 128);
  EXPECT_EQ(flat->sample_shape(), (Shape{32}));
  EXPECT_EQ(image->sample_shape(), (Shape{3, 8, 4}));
  EXPECT_EQ(flat->description(), "128 random samples 32, 2 classes");
}

TEST(RandomDataset, DependsOnSeedAndSampleOnly) {
  const auto data = open_random({32}, 128);
  const test::LabelledSample sample = test::sample_of(*data, 7);
  const test::LabelledSample again = test::sample_of(*open_random({32}, 1000), 7, 99);

  EXPECT_EQ(again.values, sample.values);
  EXPECT_EQ(again.label, sample.label);
  EXPECT_NE(test::values_of(*open_random({32}, 128, 2), 7), sample.values);
  EXPECT_NE(test::values_of(*data, 8), sample.values);
}

TEST(RandomDataset, DrawsValuesFromZeroToOneAndEveryLabel) {
  const auto data = open_random({32}, 1000);
  std::set<std::int32_t> labels;
  double sum = 0.0;
  for (std::int64_t i = 0; i < data->size(); ++i) {
    const test::LabelledSample sample = test::sample_of(*data, i);
    labels.insert(sample.label);
    for (const float value : sample.values) {
      ASSERT_GE(value, 0.0F);
      ASSERT_LT(value, 1.0F);
      sum += value;
    }
  }

  EXPECT_EQ(labels, (std::set<std::int32_t>{0, 1}));
  // Six deviations of the mean of 32000 values, each of deviation √(1/12).
  EXPECT_TRUE(test::within(sum / 32000, 0.5, 6 * 0.2887 / 178.9));
}

TEST(RandomDataset, RefusesShapesThatNoTensorHas) {
  EXPECT_THROW(open_random({}, 10), UserError);
  EXPECT_THROW(open_random({3, 0}, 10), UserError);
  EXPECT_THROW(open_random({1, 2, 3, 4}, 10), UserError);
  EXPECT_THROW(open_random({3}, 0), UserError);
}

TEST(RandomDataset, HasTargetsInsteadOfLabelsWhereTheModelWantsNumbers) {
  DataConfig config;
  config.kind = DataKind::random;
  config.shape = {4};
  const auto data = open_dataset(config, {.given = true, .images = {}, .labels = {}, .samples = 10}, 0, 1,
                                 {.training = true, .targets = 3});

  EXPECT_EQ(data->target_width(), 3);
  EXPECT_EQ(data->description(), "10 random samples 4, 3 targets");
  const test::LabelledSample sample = test::sample_of(*data, 5);
  const std::vector<float> targets = test::targets_of(*data, 5);
  EXPECT_EQ(sample.label, 0);
  EXPECT_EQ(test::targets_of(*data, 5), targets);
  EXPECT_NE(test::targets_of(*data, 6), targets);
  EXPECT_NE(std::vector<float>(sample.values.begin(), sample.values.begin() + 3), targets);
}

}  // namespace
}  // namespace flotilla
