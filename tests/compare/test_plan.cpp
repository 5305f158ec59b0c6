// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "src/compare/plan.hpp"
#include "src/config/mistakes.hpp"

namespace flotilla::test {
namespace {

using Texts = std::vector<std::string>;

/// A deck with random data.
constexpr const char* deck = R"([model]
kind = "mlp"
widths = [4]
classes = 2
[data]
kind = "random"
shape = [3]
[data.train]
samples = 64
[data.validation]
samples = 8
[train]
epochs = 2
batch_size = 8
[schedule]
learning_rate = 0.1
)";

/// 4 ranks train, 2 where there are servers.
std::int64_t batch_of_four_ranks(const Config& config) {
  return config.train.batch_size * (config.server() == nullptr ? 4 : 2);
}

std::vector<PlannedTraining> trainings(const std::string& plan, const Texts& overrides = {},
                                       const std::string& deck_text = deck) {
  return planned_trainings(read_plan("plans/p.toml", plan), deck_text, overrides, batch_of_four_ranks);
}

Texts mistakes(const std::string& plan, const Texts& overrides = {}, const std::string& deck_text = deck) {
  try {
    trainings(plan, overrides, deck_text);
  } catch (const config::MistakesError& error) {
    return error.lines;
  }
  return {};
}

TEST(Plan, IsReadWithDefaults) {
  const PlanReading reading =
      read_plan("plans/p.toml", "deck = '../d.toml'\n[[run]]\nname = 'Local SGD, 8'\n");

  EXPECT_EQ(reading.mistakes, Texts{});
  EXPECT_EQ(reading.plan.deck, "d.toml");
  EXPECT_EQ(reading.plan.output, "runs/p");
  EXPECT_EQ(reading.plan.seeds, 1);
  EXPECT_EQ(reading.plan.equal, Equal::samples);
  EXPECT_EQ(reading.plan.runs.at(0).folder, "local_sgd_8");
}

TEST(Plan, TellsAllItsMistakesAtOnceWithTheirPlaces) {
  const std::string plan = R"(deck = "d.toml"
seeds = 0
equal = "steps"
seconds = 3
tarket = 0.5
set = ["run.output=elsewhere", "strategy.kind=rings"]
[[run]]
name = "a b"
set = ["run.seed=3", "train.batch_size=-4", "strategi.kind=local-sgd"]
[[run]]
name = "A-b"
set = ["data.train.samples=3", "model.widths=9", 3]
[[run]]
set = ["train.epochs=9"]
[[run]]
name = "a b"
)";

  EXPECT_EQ(
      mistakes(plan),
      (Texts{
          "plans/p.toml:2:9: seeds must be an integer from 1 to 1000",
          "plans/p.toml:3:9: equal must be \"samples\" or \"time\"",
          "plans/p.toml:4:11: seconds needs equal = \"time\"; with \"samples\" the deck says how long a run "
          "is",
          "plans/p.toml:5:1: tarket is no key of a plan; did you mean target?",
          "plans/p.toml:6:8: run.output: the plan's output says where its runs go",
          "plans/p.toml:9:8: run.seed: all runs train with the same seeds: set it for all runs, beside deck",
          "plans/p.toml:11:8: \"A-b\" and \"a b\" name one folder, a_b; let letters or digits differ",
          "plans/p.toml:12:8: data.train.samples: all runs train on the same data: set it for all runs, "
          "beside deck",
          "plans/p.toml:12:32: model.widths: all runs begin with the same model: set it for all runs, beside "
          "deck",
          "plans/p.toml:12:50: set must be an array of \"key.path=value\", got an integer in it",
          "plans/p.toml:13:1: a run has no name",
          "plans/p.toml:14:8: train.epochs: the plan's equal says when a run ends: set it for all runs, "
          "beside "
          "deck",
          "plans/p.toml:16:8: another run is named \"a b\" too; give each its own name",
          "plans/p.toml:6:32: strategy.kind must be one of \"all-reduce\", \"local-sgd\", "
          "\"adaptive-local-sgd\", \"parameter-server\", got \"rings\"",
          "plans/p.toml:9:22: train.batch_size must be positive, got -4",
          "plans/p.toml:9:45: strategi.kind is not a known key; did you mean strategy.kind?"}));
}

TEST(Plan, TellsMistakesOfTheDeckOnceAndThoseOfARunWithItsName) {
  const std::string plan = "deck = 'd.toml'\n[[run]]\nname = 'x'\n[[run]]\nname = 'y'\n";
  const std::string wrong = std::string(deck) + "momentun = 3\n";
  EXPECT_EQ(mistakes(plan, {}, wrong), Texts{"plans/d.toml:17:1: schedule.momentun is not a known key"});

  const std::string needs =
      "deck = 'd.toml'\n[[run]]\nname = 'x'\n[[run]]\nname = 'y'\n"
      "set = ['schedule.kind=piecewise']\n";
  ASSERT_EQ(mistakes(needs).size(), 1U);
  EXPECT_TRUE(mistakes(needs)[0].starts_with("plans/d.toml: schedule.milestones is missing"))
      << mistakes(needs)[0];
  EXPECT_TRUE(mistakes(needs)[0].ends_with(" (run \"y\")")) << mistakes(needs)[0];
}

TEST(Plan, RefusesWhatLeavesTheLengthOpen) {
  const std::string timed =
      "deck = 'd.toml'\nequal = 'time'\nseconds = 3\n[[run]]\nname = 'x'\n"
      "set = ['schedule.kind=cosine']\n";
  EXPECT_EQ(mistakes(timed),
            Texts{"plans/p.toml: run \"x\": schedule.kind = \"cosine\" decays over a whole run, whose length "
                  "equal = \"time\" leaves open; use \"constant\" or \"piecewise\", or equal = \"samples\""});
  EXPECT_EQ(
      mistakes("deck = 'd.toml'\nset = ['train.patience=2', 'checkpoint.best=loss']\n[[run]]\nname = 'x'\n"),
      Texts{"plans/p.toml: run \"x\": train.patience may end it early, and equal = \"samples\" says that "
            "all runs see as many; leave it out"});
}

TEST(Plan, RefusesWhatATrainingWouldReplace) {
  const std::string timed = "deck = 'd.toml'\nequal = 'time'\nseconds = 3\n[[run]]\nname = 'x'\n";
  const std::string why =
      " is set, and equal = \"time\" says that each run trains for the plan's seconds; leave it out";
  EXPECT_EQ(mistakes(timed, {"train.seconds=5"}), Texts{"plans/p.toml: run \"x\": train.seconds" + why});
  EXPECT_EQ(mistakes(timed, {"train.target=0.5", "checkpoint.best=accuracy_top1"}),
            Texts{"plans/p.toml: run \"x\": train.target" + why});
  EXPECT_EQ(mistakes("deck = 'd.toml'\n[[run]]\nname = 'x'\n", {"run.resume=none"}),
            Texts{"command line: run.resume=none: a comparison resumes by itself what it has begun"});
}

TEST(Plan, NeedsADeckAndRuns) {
  EXPECT_EQ(
      mistakes(""),
      (Texts{"plans/p.toml: deck is missing: deck = \"../mnist_mlp.toml\", relative to the plan",
             "plans/p.toml: it has no runs: [[run]] with name = \"…\" and set = [\"key.path=value\", …]"}));
}

TEST(Plan, ThoseOfTheRepositoryAreGood) {
  for (const std::string name : {"digits", "photos"}) {
    const std::string path = std::string(FLOTILLA_SOURCE_DIR) + "/inputs/plans/compare_" + name + ".toml";
    const PlanReading reading = read_plan(path, read_deck_file(path));
    const auto all = planned_trainings(reading, read_deck_file(reading.plan.deck), {},
                                       [](const Config& config) { return config.train.global_batch_size; });
    EXPECT_EQ(reading.plan.runs.size(), 14U);
    EXPECT_EQ(std::ssize(all), 14 * reading.plan.seeds);
    for (const PlannedTraining& each : all)
      EXPECT_EQ(each.deck.config.train.global_batch_size, all[0].deck.config.train.global_batch_size);
  }
}

constexpr const char* two_runs = R"(deck = "d.toml"
seeds = 2
set = ["run.seed=5", "optimizer.kind=adam"]
[[run]]
name = "all-reduce"
[[run]]
name = "servers"
set = ["strategy.kind=parameter-server"]
)";

TEST(PlannedTrainings, AreOneSeedAfterTheOtherEachInAFolderOfItsOwn) {
  const auto all = trainings(two_runs, {"train.epochs=3", "run.output=/there"});

  ASSERT_EQ(all.size(), 4U);
  Texts outputs;
  for (const PlannedTraining& each : all) {
    outputs.push_back(each.deck.config.run.output);
    EXPECT_EQ(each.deck.config.run.seed, each.seed);
    EXPECT_EQ(each.deck.config.train.epochs, 3);
    EXPECT_EQ(each.deck.config.optimizer.kind, OptimizerKind::adam);
    EXPECT_EQ(each.deck.config.server() != nullptr, each.run == 1);
  }
  EXPECT_EQ(outputs, (Texts{"/there/all_reduce/seed-5", "/there/servers/seed-5", "/there/all_reduce/seed-6",
                            "/there/servers/seed-6"}));
}

TEST(PlannedTrainings, SeeEquallyManySamplesWhateverTheirBatch) {
  const auto all = trainings(two_runs, {"train.epochs=0", "train.steps=7"});

  EXPECT_EQ(all[0].deck.config.train.steps, 7) << "224 samples";
  EXPECT_EQ(all[1].deck.config.train.steps, 14);
  EXPECT_EQ(trainings(two_runs)[1].deck.config.train.steps, 0) << "epochs are equal in themselves";
}

TEST(PlannedTrainings, OfEqualTimeEndByTheirClock) {
  const std::string plan = "deck = 'd.toml'\nequal = 'time'\nseconds = 1234567.25\n[[run]]\nname = 'x'\n";

  const TrainConfig train = trainings(plan).at(0).deck.config.train;
  EXPECT_EQ(train.seconds, 1234567.25) << "all digits";
  EXPECT_EQ(train.epochs, 0);
  EXPECT_EQ(train.steps, 0);
}

}  // namespace
}  // namespace flotilla::test
