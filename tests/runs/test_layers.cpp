// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "src/checkpoint/checkpoint.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// Networks that the deck describes, as a user trains them.

namespace flotilla::test {
namespace {

using Texts = std::vector<std::string>;

const std::string small_network =
    "model.layers=conv 8 3 stride 2, batch_norm, relu, residual projection, conv 16 3 padding 1, gelu, end, "
    "relu, "
    "max_pool 2, dropout 0.1, flatten, linear 16, tanh, linear 10";

Texts arguments(const std::string& output, int steps, const Texts& more = {}) {
  Texts all = {"train",
               source_path("inputs/cnn_mnist.toml"),
               small_network,
               "run.output=" + output,
               "device.threads=1",
               "train.global_batch_size=64",
               "train.epochs=0",
               "schedule.kind=constant",
               "train.steps=" + std::to_string(steps),
               "run.log_every=5",
               "validation.every=0"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string train(int ranks, const Texts& all) {
  const Result result = flotilla(ranks, all);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  return result.output;
}

double final_loss(const std::string& run_folder) {
  return last_metrics(run_folder, "step").at("loss").get<double>();
}

TEST(LayerRuns, GoOnToTheSameBitsWithEveryStrategy) {
  const std::vector<Texts> strategies = {
      {},
      {"strategy.kind=local-sgd", "strategy.period=4"},
      {"strategy.kind=parameter-server", "roles.kind=symmetric", "server.mode=sync"}};
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    const TemporaryFolder folder;
    train(2, arguments(folder.path("whole"), 20, strategies[i]));
    for (const int stop : {7, 20}) train(2, arguments(folder.path("parts"), stop, strategies[i]));

    EXPECT_EQ(final_model(folder.path("parts")).values, final_model(folder.path("whole")).values) << i;
  }
}

TEST(LayerRuns, GiveTheSameBitsForEveryNumberOfRanks) {
  const TemporaryFolder folder;
  const auto bits = [&](int ranks) {
    const std::string output = folder.path(std::to_string(ranks));
    train(ranks, arguments(output, 10, {"run.reproducible=true"}));
    return final_model(output).values;
  };
  const auto one = bits(1);

  EXPECT_EQ(bits(2), one);
  EXPECT_EQ(bits(4), one);
}

TEST(LayerRuns, LearnAlikeOnTheDevices) {
  const TemporaryFolder folder;
  const Texts plain = {small_network.substr(0, small_network.find(", dropout")) +
                       ", linear 16, tanh, linear 10"};
  const auto loss = [&](const Texts& more) {
    Texts all = plain;
    all.insert(all.end(), more.begin(), more.end());
    const std::string output = folder.path(more.front().substr(more.front().find('=') + 1));
    train(1, arguments(output, 15, all));
    return final_loss(output);
  };
  const double cpu = loss({"device.kind=cpu"});

  // 15 steps, in which rounding grows by less than 64 a step.
  EXPECT_TRUE(test::within(loss({"device.kind=reference"}), cpu, 15 * 64 * float_rounding * cpu));
}

TEST(LayerRuns, AreCheckedEvaluatedAndInspected) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  const std::string checked = train(1, [&] {
    Texts all = arguments(run, 5);
    all.emplace_back("--check");
    return all;
  }());
  EXPECT_NE(
      checked.find(
          "3            residual projection                       8x13x13            0                0"),
      std::string::npos)
      << checked;
  train(1, arguments(run, 5));

  const Result evaluated = flotilla(2, {"evaluate", run});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.errors;
  const Result inspected = flotilla(1, {"inspect", run});
  EXPECT_NE(inspected.output.find("3.shortcut.0.weight"), std::string::npos)
      << inspected.output << inspected.errors;
}

TEST(LayerRuns, RefuseALayerThatDoesNotFitNamingTheDecksLine) {
  const TemporaryFolder folder;
  const std::string deck = folder.path("deck.toml");
  write_file(
      deck,
      "[model]\nkind = \"layers\"\nlayers = [\n  \"conv 4 3\",\n  \"conv 4 99\",\n  \"linear 10\",\n]\n"
      "classes = 10\n[data]\nkind = \"random\"\nshape = [1, 8, 8]\ntrain.samples = 8\n[train]\nsteps = 1\n"
      "batch_size = 4\n[schedule]\nlearning_rate = 0.1\n");

  const Result shape = flotilla(2, {"train", deck, "run.output=" + folder.path("run")});
  EXPECT_EQ(shape.exit_code, 2);
  EXPECT_NE(
      shape.errors.find("deck.toml:5:3: model.layers[1] = \"conv 4 99\": a kernel of 99 is larger than the "
                        "image, 4x6x6 with padding 0"),
      std::string::npos)
      << shape.errors;

  const Result word = flotilla(1, {"train", deck, "model.layers=cnv 4 3, linear 10"});
  EXPECT_EQ(word.exit_code, 2);
  EXPECT_NE(
      word.errors.find("model.layers[0] = \"cnv 4 3\": no layer is called \"cnv\"; did you mean \"conv\"?"),
      std::string::npos)
      << word.errors;
}

}  // namespace
}  // namespace flotilla::test
