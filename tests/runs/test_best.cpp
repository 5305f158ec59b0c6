// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// checkpoint.best and train.patience: what stays, when training ends, and the same over a resume.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

/// A training that learns its digits by heart: the loss on other digits soon grows.
class Best : public testing::Test {
 protected:
  Result train(int ranks, const std::string& name, const Texts& more = {}) const {
    Texts all = {"train",
                 source_path("inputs/mnist_mlp.toml"),
                 "run.output=" + path(name),
                 "device.threads=1",
                 "schedule.kind=constant",
                 "schedule.learning_rate=0.003",
                 "train.global_batch_size=100",
                 "train.epochs=40",
                 "train.patience=2",
                 "checkpoint.best=loss",
                 "checkpoint.keep=1"};
    all.insert(all.end(), more.begin(), more.end());
    return flotilla(ranks, all);
  }
  std::string path(const std::string& name) const { return folder_.path(name); }
  /// Step, loss, best and its epoch of each validation; null where it does not count.
  Texts validations(const std::string& name) const {
    Texts found;
    for (const auto& line : metrics(path(name), "validation"))
      found.push_back(nlohmann::json{line.at("step"), line.at("loss"), line.value("best", nlohmann::json()),
                                     line.value("best_epoch", nlohmann::json())}
                          .dump());
    return found;
  }
  std::int64_t best_step(const std::string& name) const {
    return read_checkpoint(path(name + "/checkpoints/best.h5")).state.step;
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(Best, StaysBesideTheNewestAndIsFoundByItsName) {
  const Result result = train(2, "run");

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto all = metrics(path("run"), "validation");
  ASSERT_GE(all.size(), 3U);
  ASSERT_LT(all.size(), 40U) << "the loss on other digits did not grow";
  const auto best = std::ranges::min_element(all, [](const auto& a, const auto& b) {
    return a.at("loss").template get<double>() < b.at("loss").template get<double>();
  });
  EXPECT_EQ(best - all.begin(), std::ssize(all) - 3) << "two more validations follow the best one";
  EXPECT_EQ(last_metrics(path("run"), "end").at("reason"), "stopped early");
  EXPECT_NE(result.output.find("best         loss "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("no better one in 2 validations (train.patience)"), std::string::npos)
      << result.output;

  EXPECT_EQ(best_step("run"), best->at("step"));
  EXPECT_EQ(all.back().at("best"), best->at("loss"));
  const auto files = checkpoints_in(path("run/checkpoints"));
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files.begin()->first, best_step("run"));
  EXPECT_EQ(files.rbegin()->first, all.back().at("step"));

  const std::string name = path("run/checkpoints/best.h5");
  const Result evaluated = flotilla(1, {"evaluate", name});
  char loss[32];
  std::snprintf(loss, sizeof(loss), "%.5f", best->at("loss").get<double>());
  EXPECT_NE(evaluated.output.find(loss), std::string::npos) << evaluated.output << evaluated.errors;
  EXPECT_EQ(run({FLOTILLA_EXECUTABLE, "export", name, path("model.h5")}).exit_code, 0);
}

TEST_F(Best, SeveralAreKeptAndCommandsTakeTheBestOnRequest) {
  ASSERT_EQ(train(1, "run", {"checkpoint.keep_best=3", "train.patience=6"}).exit_code, 0);
  auto all = metrics(path("run"), "validation");
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) {
    return a.at("loss").template get<double>() < b.at("loss").template get<double>();
  });
  const std::string folder = path("run/checkpoints/");
  EXPECT_EQ(read_checkpoint(folder + "best.h5").state.step, all[0].at("step"));
  EXPECT_EQ(read_checkpoint(folder + "best-2.h5").state.step, all[1].at("step"));
  EXPECT_EQ(read_checkpoint(folder + "best-3.h5").state.step, all[2].at("step"));
  EXPECT_EQ(checkpoints_in(folder).size(), 4U) << "three of the best, and the newest";

  const std::string best = fs::canonical(folder + "best.h5").string();
  const Result newest = flotilla(1, {"evaluate", path("run")});
  EXPECT_TRUE(contains(newest.output, "--best takes it")) << newest.output;
  const Result evaluated = flotilla(1, {"evaluate", path("run"), "--best"});
  EXPECT_TRUE(contains(evaluated.output, best)) << evaluated.output;
  EXPECT_FALSE(contains(evaluated.output, "--best takes it")) << evaluated.output;
  const Result exported = run({FLOTILLA_EXECUTABLE, "export", path("run"), path("model.h5"), "--best"});
  EXPECT_TRUE(contains(exported.output, best)) << exported.output << exported.errors;
  expect_told(flotilla(1, {"evaluate", folder + "best.h5", "--best"}), "leave --best out");
}

TEST_F(Best, IsTheSameOverResumesAtAnyEpoch) {
  for (const Texts& strategy : {Texts{}, Texts{"strategy.kind=local-sgd", "strategy.period=4"}}) {
    const std::string kind = strategy.empty() ? "all-reduce" : "local-sgd";
    Texts stopped = strategy;
    ASSERT_EQ(train(2, kind, strategy).exit_code, 0);
    const Texts whole = validations(kind);
    const auto last = last_metrics(path(kind), "validation").at("step").get<std::int64_t>();
    for (const std::int64_t steps : {last - 100, last - 50}) {
      Texts some = strategy;
      some.push_back("train.steps=" + std::to_string(steps));
      ASSERT_EQ(train(2, kind + "-parts", some).exit_code, 0);
    }

    const Result resumed = train(2, kind + "-parts", strategy);

    ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
    Texts parts = validations(kind + "-parts");
    // The cut in the middle of an epoch was validated too.
    EXPECT_EQ(best_step(kind + "-parts"), best_step(kind));
    EXPECT_EQ(parts.back(), whole.back());
    EXPECT_EQ(read_checkpoint(path(kind + "-parts/checkpoints/best.h5")).values,
              read_checkpoint(path(kind + "/checkpoints/best.h5")).values);
  }
}

TEST_F(Best, OfARunThatStoppedEarlyEndsAtOnceUntilItGetsMorePatience) {
  ASSERT_EQ(train(1, "run").exit_code, 0);
  const std::size_t before = metrics(path("run"), "step").size();
  const auto step = last_metrics(path("run"), "end").at("step").get<std::int64_t>();

  ASSERT_EQ(train(1, "run").exit_code, 0);
  EXPECT_EQ(metrics(path("run"), "step").size(), before);
  EXPECT_EQ(last_metrics(path("run"), "end").at("reason"), "stopped early");

  ASSERT_EQ(train(1, "run", {"train.patience=3"}).exit_code, 0);
  EXPECT_GT(last_metrics(path("run"), "end").at("step").get<std::int64_t>(), step);
}

TEST_F(Best, IsLeftOutWhereTheDeckDoesNotAskForIt) {
  const Result result =
      train(1, "run", {"checkpoint.best=none", "train.patience=0", "train.epochs=3", "--verbose"});

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_FALSE(fs::exists(path("run/checkpoints/best.h5")));
  EXPECT_EQ(metrics(path("run"), "checkpoint").size(), 1U);
  EXPECT_NE(result.output.find(", best acc1: "), std::string::npos) << result.output;
}

TEST_F(Best, CountsNoValidationThatComesOnlyBecauseTheRunEnds) {
  const Result result =
      train(1, "run", {"checkpoint.best=none", "train.patience=0", "train.epochs=3", "validation.every=2"});

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto all = metrics(path("run"), "validation");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_TRUE(all[0].contains("best"));
  EXPECT_FALSE(all[1].contains("best")) << all[1];
}

/// The tensors of a group of a file, one after another.
std::vector<float> values_of(const std::string& path, const std::string& group) {
  const Snapshot snapshot = read_checkpoint(path);
  std::vector<float> values;
  for (const CheckpointTensor& tensor : snapshot.tensors)
    if (tensor.path.starts_with(group + "/")) {
      const std::span<const float> own = snapshot.of(tensor);
      values.insert(values.end(), own.begin(), own.end());
    }
  return values;
}

TEST_F(Best, CountsTheFiguresOfTheAveragedWeights) {
  const Texts averaged = {"train.average_decay=0.75", "train.steps=10",     "train.global_batch_size=1000",
                          "checkpoint.every=1",       "checkpoint.keep=10", "train.patience=0"};
  const Result result = train(2, "run", averaged);

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto file = [&](const std::string& name, std::int64_t step) {
    return path(name + "/checkpoints/" + CheckpointFolder::file_name(step));
  };
  std::vector<double> expected;
  for (std::int64_t step = 1; step <= 10; ++step) {
    const std::vector<float> model = values_of(file("run", step), "parameters");
    if (step == 1) expected.assign(model.begin(), model.end());
    for (std::size_t i = 0; i < model.size(); ++i) expected[i] += 0.25 * (double{model[i]} - expected[i]);
  }
  const std::vector<float> average = values_of(file("run", 10), "strategy/average_parameters");
  ASSERT_EQ(average.size(), expected.size());
  for (std::size_t i = 0; i < average.size(); ++i) ASSERT_TRUE(test::within(average[i], expected[i], 1e-6));

  const auto validation = last_metrics(path("run"), "validation");
  EXPECT_NE(validation.at("average_loss"), validation.at("loss"));
  EXPECT_EQ(validation.at("best"), validation.at("average_loss"));

  ASSERT_EQ(run({FLOTILLA_EXECUTABLE, "export", "--average", file("run", 10), path("model.h5")}).exit_code,
            0);
  const Result evaluated = flotilla(1, {"evaluate", path("model.h5")});
  char loss[32];
  std::snprintf(loss, sizeof(loss), "%.5f", validation.at("average_loss").get<double>());
  EXPECT_NE(evaluated.output.find(loss), std::string::npos) << evaluated.output << evaluated.errors;
  const std::string note = "those that were trained; flotilla export --average writes the averaged ones";
  EXPECT_EQ(evaluated.output.find(note), std::string::npos) << evaluated.output;
  const Result trained = flotilla(1, {"evaluate", file("run", 10)});
  EXPECT_NE(trained.output.find(note), std::string::npos) << trained.output << trained.errors;

  Texts parts = averaged;
  parts[1] = "train.steps=6";
  ASSERT_EQ(train(2, "parts", parts).exit_code, 0);
  ASSERT_EQ(train(2, "parts", averaged).exit_code, 0);
  EXPECT_EQ(read_checkpoint(file("parts", 10)).values, read_checkpoint(file("run", 10)).values);
}

TEST_F(Best, TheFirstAverageOfARunThatBeganWithoutIsTheModel) {
  Texts some = {"train.steps=3", "train.patience=0"};
  ASSERT_EQ(train(2, "run", some).exit_code, 0);
  some = {"train.steps=4", "train.patience=0", "train.average_decay=0.75",
          "run.resume_with=[\"train.average_decay\"]"};
  const Result result = train(2, "run", some);

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const std::string file = path("run/checkpoints/" + CheckpointFolder::file_name(4));
  EXPECT_FALSE(values_of(file, "parameters").empty());
  EXPECT_EQ(values_of(file, "strategy/average_parameters"), values_of(file, "parameters"));
}

}  // namespace
}  // namespace flotilla::test
