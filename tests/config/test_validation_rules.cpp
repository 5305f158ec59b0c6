// SPDX-License-Identifier: Apache-2.0
// What asks for validations: the best checkpoint, patience, a target.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/config/deck_support.hpp"

namespace flotilla {
namespace {

TEST(ValidationRules, TheBestCheckpointIsOneOfValidationsThatTakePlace) {
  const std::string with_validation = test::good_deck + "[data.validation]\nsamples = 10\n";
  EXPECT_NO_THROW(test::load(with_validation, {"checkpoint.best=loss", "train.patience=3"}));
  EXPECT_NE(test::mistakes_of(test::good_deck, {"checkpoint.best=loss"}).find("set data.validation"),
            std::string::npos);
  EXPECT_NE(
      test::mistakes_of(with_validation, {"train.patience=3"}).find("train.patience needs checkpoint.best"),
      std::string::npos);
  EXPECT_NE(
      test::mistakes_of(with_validation, {"checkpoint.best=auc"}).find("needs model.kind = \"ctr-dnn\""),
      std::string::npos);
  EXPECT_NE(
      test::mistakes_of(with_validation, {"checkpoint.best=loss", "train.patience=3", "validation.every=0"})
          .find("asks for none before the end"),
      std::string::npos);
}

TEST(ValidationRules, APlateauNeedsValidationsAndMorePatienceThanItWaits) {
  const std::string deck = test::good_deck + "[data.validation]\nsamples = 10\n";
  const std::string plateau = "schedule.kind=plateau";
  EXPECT_NO_THROW(test::load(deck, {plateau}));
  EXPECT_NO_THROW(test::load(deck, {plateau, "schedule.patience=2", "schedule.cooldown=1", "train.patience=4",
                                    "checkpoint.best=loss"}));
  EXPECT_NE(test::mistakes_of(test::good_deck, {plateau}).find("set data.validation"), std::string::npos);
  EXPECT_NE(test::mistakes_of(deck, {plateau, "validation.every=0"}).find("asks for none before the end"),
            std::string::npos);
  EXPECT_NE(
      test::mistakes_of(deck, {plateau, "schedule.factor=1"}).find("schedule.factor must be less than 1"),
      std::string::npos);
  EXPECT_NE(
      test::mistakes_of(deck, {plateau, "schedule.patience=2", "train.patience=3", "checkpoint.best=loss"})
          .find("it must be at least 4"),
      std::string::npos);
  EXPECT_NE(test::mistakes_of(deck, {"schedule.kind=one-cycle", "schedule.warmup_epochs=0.5"})
                .find("set schedule.rise"),
            std::string::npos);
  EXPECT_NE(test::mistakes_of(deck, {"schedule.patience=2"}).find("schedule.patience"), std::string::npos);
}

TEST(ValidationRules, SeveralBestCheckpointsNeedAFigureAndFiguresOfClassesNeedClasses) {
  const std::string deck = test::good_deck + "[data.validation]\nsamples = 10\n";
  EXPECT_NO_THROW(test::load(deck, {"checkpoint.best=roc_auc", "checkpoint.keep_best=5"}));
  EXPECT_NE(
      test::mistakes_of(deck, {"checkpoint.keep_best=2"}).find("checkpoint.keep_best needs checkpoint.best"),
      std::string::npos);
  EXPECT_NE(
      test::mistakes_of(deck, {"checkpoint.best=roc_auc", "model.classes=1001"}).find("up to 1000 classes"),
      std::string::npos);
}

TEST(ValidationRules, ATargetNeedsValidationsAndMlperfATarget) {
  const std::string deck = test::good_deck + "[data.validation]\nsamples = 10\n";
  const std::string best = "checkpoint.best=accuracy_top1";
  EXPECT_NO_THROW(test::load(deck, {best, "train.target=0.5"}));
  EXPECT_NE(test::mistakes_of(deck, {"train.target=0.5"}).find("train.target needs checkpoint.best"),
            std::string::npos);
  EXPECT_NE(test::mistakes_of(deck, {best, "train.target=0.5", "validation.every=0"})
                .find("train.target is compared after each validation"),
            std::string::npos);
  const std::string resnet = "model.kind=resnet";
  const std::string log = "run.mlperf_log=true";
  EXPECT_NO_THROW(test::load(deck, {log, resnet, best, "train.target=0.5"}));
  for (const std::vector<std::string>& given :
       std::vector<std::vector<std::string>>{{log, best, "train.target=0.5"},
                                             {log, resnet, best},
                                             {log, resnet, "checkpoint.best=loss", "train.target=0.5"}})
    EXPECT_NE(test::mistakes_of(deck, given).find("run.mlperf_log is of runs to an accuracy"),
              std::string::npos);
}

}  // namespace
}  // namespace flotilla
