// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "src/train/monitor/best_validation.hpp"

namespace flotilla {
namespace {

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
  EXPECT_EQ(loss.step(), 20);
  EXPECT_EQ(loss.text(), "loss 0.25000 in epoch 2");
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

  EXPECT_EQ(after.step(), 10);
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

  EXPECT_EQ(rmse.text(), "rmse 2.00000 in epoch 0");
  EXPECT_EQ(r2.text(), "r2 0.50000 in epoch 0");
  EXPECT_EQ(accuracy.step(), 2);
  ValidationReport averaged = second;
  averaged.averages["r2"] = 0.625;
  EXPECT_EQ(r2.figure(averaged), 0.625);
}

}  // namespace
}  // namespace flotilla
