// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/data/arrays/array_files.hpp"
#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// Classes of different sizes: weights of their losses, balanced samples, and figures that treat them alike.

namespace flotilla::test {
namespace {

using Texts = std::vector<std::string>;

const std::vector<double> samples = {1, 2, 2, -1, -1, 0.5, 0.5, 0.5, 3, 1, -2, -1, 0, 1, 1, -2};
const std::vector<double> labels = {0, 0, 0, 0, 0, 1, 1, 2};
/// torch.nn.CrossEntropyLoss(weight=[0.5, 2, 4]) of PyTorch 1.13.1 before each of eight steps of SGD(lr=0.1,
/// momentum=0.9) over all samples, of a linear layer that begins with zeros.
const std::vector<double> weighted_losses = {1.0986122886681098, 1.0194407952869473, 0.8913412032313586,
                                             0.7535724848799661, 0.6369913854081295, 0.5528371749077723,
                                             0.4972582980040115, 0.4618179919791607};

class ClassBalance : public testing::Test {
 protected:
  ClassBalance() {
    const NumberType f32{NumberType::Kind::f32};
    const NumberType i32{NumberType::Kind::i32};
    save_hdf5(path("a.h5"), {of_values("x", f32, {8, 2}, samples), of_values("y", i32, {8}, labels)});
    write_file(path("deck.toml"),
               "[model]\nwidths = []\nclasses = 3\ninitializer = \"normal\"\ninitializer_scale = 1e-30\n"
               "[data]\nkind = \"hdf5\"\ninputs = \"x\"\ntargets = \"y\"\n"
               "[train]\nsteps = 8\nglobal_batch_size = 8\n[schedule]\nlearning_rate = 0.1\n"
               "[optimizer]\nkind = \"momentum\"\nmomentum = 0.9\n[run]\nlog_every = 1\n"
               "[device]\nthreads = 1\n");
  }
  Result train(int ranks, const std::string& name, const Texts& more) const {
    Texts all = {"train", path("deck.toml"), "run.output=" + path(name), "data.train.path=" + path("a.h5"),
                 "data.validation.path=" + path("a.h5")};
    all.insert(all.end(), more.begin(), more.end());
    return flotilla(ranks, all);
  }
  std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  TemporaryFolder folder_;
};

const std::string weights = "train.class_weights=[0.5, 2, 4]";

TEST_F(ClassBalance, LossesAreDividedByTheWeightsOfTheGlobalBatch) {
  // With four workers of two samples each, all but one lack a class.
  int number = 0;
  for (const auto& [ranks, more] :
       std::vector<std::pair<int, Texts>>{{1, {}},
                                          {2, {}},
                                          {4, {}},
                                          {1, {"train.accumulate_steps=4"}},
                                          {2, {"train.accumulate_steps=2"}},
                                          {2, {"run.reproducible=true"}},
                                          {2, {"train.gradient_clip_norm=1000"}},
                                          {2, {"strategy.all_reduce=mpi"}},
                                          {1, {"strategy.kind=local-sgd", "strategy.period=2"}}}) {
    const std::string name = "run" + std::to_string(number++);
    Texts all = more;
    all.push_back(weights);
    const Result result = train(ranks, name, all);
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    const std::vector<double> found = losses(path(name));
    ASSERT_EQ(found.size(), weighted_losses.size());
    for (std::size_t step = 0; step < found.size(); ++step)
      EXPECT_TRUE(within(found[step], weighted_losses[step], 1e-6 * weighted_losses[step]))
          << name << ", step " << step;
    const double last = metrics(path(name), "validation").back().at("loss");
    EXPECT_LT(last, weighted_losses.back());
    EXPECT_GT(last, 0.9 * weighted_losses.back()) << "a validation divides by the weights too";
  }
}

TEST_F(ClassBalance, WeightsThatAreAllEqualChangeNothing) {
  ASSERT_EQ(train(2, "plain", {}).exit_code, 0);
  ASSERT_EQ(train(2, "equal", {"train.class_weights=[2, 2, 2]"}).exit_code, 0);
  EXPECT_EQ(losses(path("equal")), losses(path("plain")));
}

TEST_F(ClassBalance, WeightsThatDoNotFitAreRefused) {
  expect_told(train(1, "run", {"train.class_weights=[1, 2]"}),
              "train.class_weights holds a weight for each of the 3 classes (model.classes), got 2");
  expect_told(train(1, "run", {weights, "train.label_smoothing=0.1"}), "exclude each other");
  expect_told(train(2, "run", {weights, "strategy.kind=parameter-server"}),
              "is not done by parameter servers");
  expect_told(train(1, "run", {"train.class_weights=[0, 1, 1]"}), "train.class_weights");
  expect_told(train(1, "run", {weights, "model.loss=mse", "model.outputs=1"}), "train.class_weights");
}

TEST_F(ClassBalance, BalancedSamplesAreTheSameForAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3})
    ASSERT_EQ(train(ranks, "run" + std::to_string(ranks),
                    {"data.order=balanced", "train.global_batch_size=6", "train.steps=9"})
                  .exit_code,
              0);
  const std::vector<double> one = losses(path("run1"));
  for (const char* const other : {"run2", "run3"}) {
    const std::vector<double> found = losses(path(other));
    ASSERT_EQ(found.size(), one.size());
    for (std::size_t step = 0; step < one.size(); ++step) EXPECT_TRUE(within(found[step], one[step], 1e-6));
  }
  ASSERT_EQ(train(1, "shuffled", {"train.global_batch_size=6", "train.steps=9"}).exit_code, 0);
  EXPECT_NE(losses(path("shuffled")), one);
  expect_told(train(1, "run", {"data.order=balanced", "model.loss=mse", "model.outputs=1"}), "data.order");
}

TEST_F(ClassBalance, FiguresThatTreatClassesAlikeAreTheSameForAnyNumberOfRanks) {
  ASSERT_EQ(train(2, "run", {"checkpoint.best=macro_f1"}).exit_code, 0);
  EXPECT_EQ(metrics(path("run"), "validation").back().at("best_of"), "macro_f1");
  const Result told = flotilla(1, {"evaluate", path("run")});
  for (const char* const part : {"macro F1", "balanced", "ROC AUC", "by its bins"})
    EXPECT_TRUE(contains(told.output, part)) << told.output;
  const auto figures = [&](int ranks) {
    return nlohmann::json::parse(flotilla(ranks, {"evaluate", path("run"), "--json"}).output);
  };
  const nlohmann::json one = figures(1);
  const nlohmann::json three = figures(3);
  for (const char* const key : {"macro_f1", "balanced_accuracy", "roc_auc", "roc_auc_bound"})
    EXPECT_EQ(one.at(key), three.at(key)) << key;
}

}  // namespace
}  // namespace flotilla::test
