// SPDX-License-Identifier: Apache-2.0
// model.loss, and what goes with it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/config/deck_support.hpp"

namespace flotilla {
namespace {

const std::string deck =
    "[model]\nwidths = [8]\nloss = \"mse\"\noutputs = 3\n"
    "[data]\nkind = \"random\"\nshape = [4]\ntrain.samples = 100\nvalidation.samples = 10\n"
    "[train]\nepochs = 2\nbatch_size = 10\n[schedule]\nlearning_rate = 0.1\n";

void expect_mistake(const std::vector<std::string>& given, const std::string& part) {
  const std::string mistakes = test::mistakes_of(deck, given);
  EXPECT_NE(mistakes.find(part), std::string::npos) << given.front() << ": " << mistakes;
}

TEST(LossRules, NumbersNeedOutputsInsteadOfClasses) {
  const ModelConfig model = test::load(deck).config.model;
  EXPECT_EQ(model.loss, ModelLoss::mse);
  EXPECT_EQ(model.output_width(), 3);
  EXPECT_FALSE(model.has_classes());
  EXPECT_EQ(test::load(test::good_deck).config.model.output_width(), 3);

  expect_mistake({"model.classes=3"}, "model.classes");
  expect_mistake({"model.huber_delta=2"}, "model.huber_delta");
  EXPECT_EQ(test::load(deck, {"model.loss=huber", "model.huber_delta=2"}).config.model.huber_delta, 2.0);
  EXPECT_NE(test::mistakes_of(test::good_deck, {"model.loss=mae"}).find("model.outputs"), std::string::npos);
  EXPECT_NE(test::mistakes_of(test::good_deck, {"model.outputs=3"}).find("model.outputs"), std::string::npos);
}

TEST(LossRules, RefuseWhatIsOfClasses) {
  for (const char* given : {"train.label_smoothing=0.1", "train.mixup=0.2", "train.cutmix=1"})
    expect_mistake({given}, "and model.loss = \"mse\" exclude each other: leave it out");
  expect_mistake({"data.class_names=names.txt"}, "data.class_names and model.loss");
  expect_mistake({"model.kind=resnet", "run.mlperf_log=true"}, "run.mlperf_log is of runs to an accuracy");
  expect_mistake({"data.kind=idx"}, "these data have labels of classes");
}

TEST(LossRules, AFigureOfValidationsBelongsToItsLoss) {
  for (const char* best : {"loss", "rmse", "r2"})
    EXPECT_NO_THROW(test::load(deck, {std::string("checkpoint.best=") + best, "train.patience=2"}));
  for (const char* best : {"accuracy", "f1"})
    EXPECT_NO_THROW(test::load(deck, {"model.loss=binary", std::string("checkpoint.best=") + best}));
  expect_mistake({"checkpoint.best=accuracy_top1"},
                 "checkpoint.best = \"accuracy_top1\" needs model.loss = \"softmax\", it is \"mse\"");
  expect_mistake({"checkpoint.best=f1"}, "needs model.loss = \"binary\"");
  expect_mistake({"checkpoint.best=r2", "model.loss=binary"},
                 "needs model.loss = \"mse\", \"mae\" or \"huber\"");
  expect_mistake({"checkpoint.best=auc"}, "model.kind = \"ctr-dnn\"");
}

}  // namespace
}  // namespace flotilla
