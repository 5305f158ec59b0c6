// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/config.hpp"
#include "src/train/monitor/best_validation.hpp"
#include "src/train/monitor/output_metrics.hpp"
#include "src/train/step_reports.hpp"
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

bool add(BestValidation& best, std::int64_t step, double loss, double accuracy = 0.0) {
  const ValidationReport report{
      .step = step, .epoch = step / 10, .figures = {{"loss", loss}, {"accuracy_top1", accuracy}}};
  return best.add(best.figure(report), report);
}

Config config_of(BestMetric metric, std::int64_t patience) {
  Config config;
  config.checkpoint.best = metric;
  config.train.patience = patience;
  return config;
}

TEST(BestValidation, IsTheLowestLossOrTheHighestAccuracy) {
  BestValidation loss(config_of(BestMetric::loss, 0), {});
  BestValidation accuracy(config_of(BestMetric::accuracy_top1, 0), {});
  EXPECT_FALSE(loss.is_known());

  EXPECT_TRUE(add(loss, 10, 0.5));
  EXPECT_TRUE(add(loss, 20, 0.25));
  EXPECT_FALSE(add(loss, 30, 0.25)) << "as good is not better";
  EXPECT_EQ(loss.steps().front(), 20);
  EXPECT_EQ(loss.text(), "loss 0.25000 at step 20");
  EXPECT_TRUE(add(accuracy, 10, 0.0, 0.5));
  EXPECT_FALSE(add(accuracy, 20, 0.0, 0.25));
  EXPECT_TRUE(add(accuracy, 30, 0.0, 0.75));
}

TEST(BestValidation, LosesPatienceAfterSoManyWithoutImprovement) {
  BestValidation best(config_of(BestMetric::loss, 2), {});
  add(best, 10, 0.5);
  add(best, 20, 0.6);
  EXPECT_FALSE(best.out_of_patience());
  add(best, 30, 0.4);
  add(best, 40, 0.5);
  EXPECT_FALSE(best.out_of_patience());
  add(best, 50, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(best.out_of_patience());
}

TEST(BestValidation, ReachesATargetFromItsBetterSideAndKeepsIt) {
  const auto with_target = [](BestMetric metric) {
    Config config = config_of(metric, 0);
    config.train.target = 0.5;
    return BestValidation(config, {});
  };
  BestValidation loss = with_target(BestMetric::loss);
  BestValidation accuracy = with_target(BestMetric::accuracy_top1);
  EXPECT_FALSE(loss.reached_target());
  add(loss, 10, 0.6);
  add(accuracy, 10, 0.0, 0.4);
  EXPECT_FALSE(loss.reached_target());
  EXPECT_FALSE(accuracy.reached_target());
  add(loss, 20, 0.5);
  add(accuracy, 20, 0.0, 0.5);
  EXPECT_TRUE(loss.reached_target());
  EXPECT_TRUE(accuracy.reached_target());
  add(accuracy, 30, 0.0, 0.3);
  EXPECT_TRUE(accuracy.reached_target());

  BestValidation none(config_of(BestMetric::loss, 0), {});
  add(none, 10, 0.0);
  EXPECT_FALSE(none.reached_target());
}

TEST(BestValidation, GoesOnWhereItWasSaved) {
  BestValidation before(config_of(BestMetric::loss, 2), {});
  add(before, 10, 0.3);
  add(before, 20, 0.6);

  BestValidation after(config_of(BestMetric::loss, 2), before.numbers());

  EXPECT_EQ(after.steps().front(), 10);
  EXPECT_FALSE(add(after, 20, 0.1)) << "the validation of a step counts once";
  EXPECT_FALSE(after.out_of_patience());
  EXPECT_FALSE(add(after, 30, 0.4));
  EXPECT_TRUE(after.out_of_patience());
}

TEST(BestValidation, StandsInTheReport) {
  BestValidation best(config_of(BestMetric::none, 0), {});
  add(best, 10, 0.5, 0.75);
  ValidationReport report{.step = 20, .epoch = 2, .figures = {{"accuracy_top1", 0.5}}};

  best.put_into(report);

  EXPECT_EQ(report.best_of, "accuracy_top1");
  EXPECT_EQ(report.best, 0.75);
  EXPECT_EQ(report.best_epoch, 1);
}

TEST(BestValidation, OfNumbersIsTheLowestErrorOrTheHighestR2) {
  Config config = config_of(BestMetric::rmse, 0);
  config.model.loss = ModelLoss::mse;
  config.model.outputs = 1;
  BestValidation rmse(config, {});
  config.checkpoint.best = BestMetric::none;
  BestValidation r2(config, {});
  config.model.loss = ModelLoss::binary;
  BestValidation accuracy(config, {});
  const ValidationReport first{.step = 1, .figures = {{"rmse", 3.0}, {"r2", 0.5}, {"accuracy", 0.75}}};
  const ValidationReport second{.step = 2, .figures = {{"rmse", 2.0}, {"r2", 0.25}, {"accuracy", 0.875}}};
  for (BestValidation* best : {&rmse, &r2, &accuracy})
    for (const ValidationReport& report : {first, second}) best->add(best->figure(report), report);

  EXPECT_EQ(rmse.text(), "rmse 2.00000 at step 2");
  EXPECT_EQ(r2.text(), "r2 0.50000 at step 1");
  EXPECT_EQ(accuracy.steps().front(), 2);
  ValidationReport averaged = second;
  averaged.averages["r2"] = 0.625;
  EXPECT_EQ(r2.figure(averaged), 0.625);
}

TEST(LossMean, IsOfTheStepsSinceItWasTaken) {
  LossMean losses;
  losses.add({.loss = 1.0, .samples = 8.0});
  losses.add({.loss = 3.0, .samples = 8.0});

  EXPECT_EQ(losses.take(), 2.0);
  losses.add({.loss = 5.0, .samples = 8.0});
  EXPECT_EQ(losses.take(), 5.0);
  EXPECT_EQ(losses.take(), std::nullopt);
}

TEST(LossMean, LeavesStepsOutThatHaveNone) {
  LossMean losses;
  losses.add({.loss = 0.0, .samples = 0.0});
  losses.add({.loss = std::numeric_limits<double>::infinity(), .samples = 8.0});
  losses.add({.loss = 4.0, .samples = 8.0});

  EXPECT_EQ(losses.take(), 4.0);
}

}  // namespace
}  // namespace flotilla
