// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/config.hpp"
#include "src/train/monitor/output_metrics.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

Config config_of(ModelLoss loss, std::int64_t outputs) {
  Config config;
  config.model.loss = loss;
  config.model.outputs = outputs;
  return config;
}

/// Two outputs, the second in other units: y = 10 · output + 1000.
Config two_outputs() {
  Config config = config_of(ModelLoss::mse, 2);
  config.data.target_mean = {0.0, 1000.0};
  config.data.target_std = {1.0, 10.0};
  return config;
}

const std::vector<float> targets = {1, 0, 2, 1, 3, 2, 6, 5};
const std::vector<float> outputs = {1, 0, 1, 1, 4, 2, 6, 4};

TEST(OutputMetrics, AreThoseOfTheDefinitionsInUnitsOfTheData) {
  OutputSums sums{OutputUnits(two_outputs())};
  sums.add(outputs, targets);

  const OutputMetrics found = sums.metrics();

  // Errors of the first: 0, 1, −1, 0 of targets 1, 2, 3, 6 around 3; of the second 10 · (0, 0, 0, 1).
  EXPECT_TRUE(test::within(found.outputs[0].at("rmse"), std::sqrt(0.5), 1e-15));
  EXPECT_TRUE(test::within(found.outputs[0].at("mae"), 0.5, 1e-15));
  EXPECT_TRUE(test::within(found.outputs[0].at("r2"), 1.0 - 2.0 / 14.0, 1e-15));
  EXPECT_TRUE(test::within(found.outputs[1].at("rmse"), 5.0, 1e-13));
  EXPECT_TRUE(test::within(found.outputs[1].at("mae"), 2.5, 1e-14));
  EXPECT_TRUE(test::within(found.outputs[1].at("r2"), 1.0 - 1.0 / 14.0, 1e-14));
  EXPECT_TRUE(test::within(found.all.at("rmse"), std::sqrt(0.5 * (0.5 + 25.0)), 1e-13));
  EXPECT_TRUE(test::within(found.all.at("mae"), 1.5, 1e-14));
  EXPECT_TRUE(test::within(found.all.at("r2"), 1.0 - 1.5 / 14.0, 1e-14));
  EXPECT_EQ(OutputUnits(two_outputs()).value(0.5F, 1), 1005.0);
}

TEST(OutputMetrics, DoNotDependOnBatchesNorOnTheNumberOfParts) {
  const OutputUnits units(two_outputs());
  OutputSums whole(units);
  whole.add(outputs, targets);
  OutputSums batches(units);
  for (std::size_t row = 0; row < 4; ++row)
    batches.add(std::span(outputs).subspan(2 * row, 2), std::span(targets).subspan(2 * row, 2));
  OutputSums parts(units);
  for (const auto& [begin, count] : {std::pair(0U, 2U), std::pair(2U, 0U), std::pair(2U, 6U)}) {
    OutputSums part(units);
    part.add(std::span(outputs).subspan(begin, count), std::span(targets).subspan(begin, count));
    parts.merge(part.numbers());
  }

  EXPECT_EQ(std::vector(batches.numbers().begin(), batches.numbers().end()),
            std::vector(whole.numbers().begin(), whole.numbers().end()));
  EXPECT_TRUE(test::within(parts.metrics().all.at("r2"), whole.metrics().all.at("r2"), 1e-15));
  EXPECT_TRUE(test::within(parts.metrics().all.at("rmse"), whole.metrics().all.at("rmse"), 1e-14));
}

TEST(OutputMetrics, OfTargetsFarFromZeroKeepTheirDigits) {
  // Σ t² − (Σ t)² / n would leave nothing of a deviation of 1 around 10⁷, of targets as floats.
  OutputSums sums{OutputUnits(config_of(ModelLoss::mse, 1))};
  std::vector<float> far;
  for (int i = 0; i < 10000; ++i) far.push_back(1e7F + static_cast<float>(i % 3));
  std::vector<float> off = far;
  for (float& value : off) value += 1.0F;
  sums.add(off, far);

  // The variance of 0, 1, 2 taken in turn is close to 2/3.
  EXPECT_TRUE(test::within(sums.metrics().all.at("r2"), 1.0 - 1.0 / (2.0 / 3.0), 1e-3));
}

TEST(OutputMetrics, OfTargetsThatAreAllEqualAreThoseOfScikitLearn) {
  for (const float output : {5.0F, 4.0F}) {
    OutputSums sums{OutputUnits(config_of(ModelLoss::mae, 1))};
    sums.add(std::vector<float>(3, output), std::vector<float>(3, 5.0F));
    EXPECT_EQ(sums.metrics().all.at("r2"), output == 5.0F ? 1.0 : 0.0);
  }
}

TEST(OutputMetrics, CountLabelsOfEachOutputAndOfAll) {
  OutputSums sums{OutputUnits(config_of(ModelLoss::binary, 2))};
  // First: one true positive, one false negative, one false positive; second: all are true negatives.
  sums.add(std::vector<float>{2, -1, -0.5F, -3, 0.25F, -9}, std::vector<float>{1, 0, 1, 0, 0, 0});

  const OutputMetrics found = sums.metrics();

  EXPECT_FALSE(found.all.contains("rmse"));
  EXPECT_TRUE(test::within(found.outputs[0].at("accuracy"), 1.0 / 3.0, 1e-15));
  EXPECT_TRUE(test::within(found.outputs[0].at("f1"), 0.5, 1e-15));
  EXPECT_EQ(found.outputs[1].at("accuracy"), 1.0);
  EXPECT_EQ(found.outputs[1].at("f1"), 0.0);
  EXPECT_TRUE(test::within(found.all.at("accuracy"), 4.0 / 6.0, 1e-15));
  EXPECT_TRUE(test::within(found.all.at("f1"), 0.5, 1e-15));
}

}  // namespace
}  // namespace flotilla
