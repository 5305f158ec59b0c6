// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <sstream>

#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// Networks that predict numbers, as a user trains and uses them.

namespace flotilla::test {
namespace {

using Texts = std::vector<std::string>;

/// Three numbers of six, which are random: what is compared here are bits, not what was learned.
const std::string deck =
    "[model]\nwidths = [16]\nloss = \"mse\"\noutputs = 3\n"
    "[data]\nkind = \"random\"\nshape = [6]\ntrain.samples = 320\nvalidation.samples = 50\n"
    "[train]\nsteps = 20\nglobal_batch_size = 32\n[schedule]\nlearning_rate = 0.1\n"
    "[device]\nthreads = 1\n[run]\nlog_every = 5\n";

class Regression : public testing::Test {
 protected:
  Regression() { write_file(path("deck.toml"), deck); }
  std::string path(const std::string& name) const { return folder_.path(name); }

  Result train(int ranks, const std::string& output, const Texts& more = {}) {
    Texts all = {"train", path("deck.toml"), "run.output=" + path(output)};
    all.insert(all.end(), more.begin(), more.end());
    Result result = flotilla(ranks, all);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result;
  }
  Snapshot model(const std::string& output) const { return final_model(path(output)); }
  nlohmann::json validation(const std::string& output) const {
    return last_metrics(path(output), "validation");
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(Regression, ReportsTheErrorsOfNumbersInsteadOfAccuracies) {
  const Result result = train(2, "run");

  const nlohmann::json step = last_metrics(path("run"), "step");
  EXPECT_FALSE(step.contains("accuracy_top1"));
  const nlohmann::json found = validation("run");
  EXPECT_FALSE(found.contains("accuracy_top1"));
  EXPECT_FALSE(found.contains("f1"));
  EXPECT_EQ(found.at("samples"), 50);
  EXPECT_EQ(found.at("output_rmse").size(), 3U);
  EXPECT_EQ(found.at("best_of"), "r2");
  // The loss is the mean of the squares, here in units of the data.
  const double rmse = found.at("rmse").get<double>();
  EXPECT_TRUE(test::within(found.at("loss").get<double>(), rmse * rmse, 16 * float_rounding * rmse * rmse));
  EXPECT_LT(found.at("mae").get<double>(), rmse);
  EXPECT_NE(result.output.find(", rmse "), std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("acc"), std::string::npos) << result.output;
}

TEST_F(Regression, GivesTheSameBitsForEveryNumberOfRanks) {
  for (const int ranks : {1, 2, 4}) train(ranks, std::to_string(ranks), {"run.reproducible=true"});

  for (const char* ranks : {"2", "4"}) {
    EXPECT_EQ(model(ranks).values, model("1").values);
    for (const char* key : {"loss", "rmse", "mae", "r2", "output_r2"})
      EXPECT_EQ(validation(ranks).at(key), validation("1").at(key)) << key;
  }
}

TEST_F(Regression, GoesOnToTheSameBitsWithEveryStrategy) {
  const std::vector<Texts> strategies = {
      {},
      {"strategy.kind=local-sgd", "strategy.period=4"},
      {"strategy.kind=parameter-server", "roles.kind=symmetric", "server.mode=sync"}};
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    const auto with = [&](const std::string& steps) {
      Texts all = strategies[i];
      all.push_back("train.steps=" + steps);
      return all;
    };
    const std::string whole = "whole" + std::to_string(i);
    const std::string parts = "parts" + std::to_string(i);
    train(2, whole, with("20"));
    for (const char* stop : {"7", "20"}) train(2, parts, with(stop));

    EXPECT_EQ(model(parts).values, model(whole).values) << i;
  }
}

TEST_F(Regression, TrainsWithEveryLossOnTheDevices) {
  for (const char* loss : {"mse", "mae", "huber", "binary"}) {
    std::vector<double> losses;
    for (const char* device : {"cpu", "reference"}) {
      const std::string output = std::string(loss) + device;
      train(1, output, {std::string("model.loss=") + loss, std::string("device.kind=") + device});
      losses.push_back(validation(output).at("loss").get<double>());
      EXPECT_EQ(validation(output).contains("f1"), std::string(loss) == "binary");
    }
    // Twenty steps, in which rounding grows by less than 64 a step.
    EXPECT_TRUE(test::within(losses[1], losses[0], 20 * 64 * float_rounding * losses[0])) << loss;
  }
}

TEST_F(Regression, EvaluatesToTheBitsOfTheValidationAndWritesOutputs) {
  train(2, "run", {"checkpoint.best=r2", "train.patience=50"});
  const nlohmann::json trained = validation("run");

  const Result json = flotilla(2, {"evaluate", path("run"), "--json", "--vectors", path("vectors.h5")});
  ASSERT_EQ(json.exit_code, 0) << json.errors;
  const nlohmann::json found = nlohmann::json::parse(json.output);
  for (const char* key : {"loss", "rmse", "mae", "r2"}) EXPECT_EQ(found.at(key), trained.at(key)) << key;
  for (std::size_t output = 0; output < 3; ++output)
    EXPECT_EQ(found.at("outputs")[output].at("r2"), trained.at("output_r2")[output]);
  EXPECT_FALSE(found.contains("classes"));

  const Result table = flotilla(1, {"evaluate", path("run")});
  EXPECT_NE(table.output.find("  output          rmse           mae            r2\n       0"),
            std::string::npos)
      << table.output;
  for (const char* of_classes : {"--per-class", "--confusion"}) {
    const Result refused = flotilla(2, {"evaluate", path("run"), of_classes});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_EQ(count(refused.errors, "flotilla: "), 1) << refused.errors;
  }
}

TEST_F(Regression, IsCheckedMeasuredAndExported) {
  const Result checked = flotilla(1, {"train", path("deck.toml"), "--check"});
  EXPECT_NE(checked.output.find("loss = \"mse\""), std::string::npos) << checked.output << checked.errors;
  EXPECT_EQ(checked.output.find("classes = "), std::string::npos) << checked.output;
  const Result bench = flotilla(2, {"bench", "step", path("deck.toml"), "--steps", "5"});
  EXPECT_EQ(bench.exit_code, 0) << bench.errors;
  train(1, "run");
  const Result exported = flotilla(1, {"export", path("run"), path("model.h5")});
  EXPECT_EQ(exported.exit_code, 0) << exported.errors;
  const Result evaluated = flotilla(1, {"evaluate", path("model.h5")});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.errors;
  const Result report = flotilla(1, {"report", path("run"), "--output", path("page.html")});
  EXPECT_EQ(report.exit_code, 0) << report.errors;
  EXPECT_NE(read_file(path("page.html")).find("\"figure\":\"r2\""), std::string::npos);
}

}  // namespace
}  // namespace flotilla::test
