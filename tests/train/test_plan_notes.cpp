// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "src/config/deck.hpp"
#include "src/train/plan_notes.hpp"
#include "tests/support/messages.hpp"

namespace flotilla {
namespace {

using Texts = std::vector<std::string>;

constexpr const char* deck =
    "[model]\nwidths = [8]\nclasses = 3\n[data]\nkind = \"random\"\nshape = [4]\ntrain.samples = 100\n"
    "[train]\nepochs = 4\nbatch_size = 10\n[schedule]\nlearning_rate = 0.1\n";
const Sharding ten_steps{.samples = 100, .workers = 1, .batch = 10};

Config with(const Texts& overrides) {
  return load_deck({.path = "deck.toml", .text = deck, .overrides = overrides}).config;
}

/// All notes of a new run as one text.
std::string notes(const Texts& overrides) {
  std::string all;
  for (const std::string& note : plan_notes(with(overrides), ten_steps, {})) all += note + "\n";
  return all;
}

std::string jump(const Texts& overrides, const CheckpointState& checkpoint) {
  return rate_jump(with(overrides), ten_steps, checkpoint);
}

CheckpointState saved(const Texts& overrides, std::int64_t step) {
  CheckpointState state;
  state.step = step;
  state.position = {step / 10, step % 10 * 10};
  state.deck = with(overrides).resolved_text;
  return state;
}

TEST(PlanNotes, AreNoneWhereAllIsReached) {
  EXPECT_EQ(notes({}), "");
  EXPECT_EQ(notes({"schedule.kind=piecewise", "schedule.milestones=2,3.5", "schedule.warmup_epochs=1"}), "");
  EXPECT_EQ(notes({"schedule.kind=piecewise", "schedule.milestones=2", "train.steps=5"}), "")
      << "a run that train.steps cuts short can go on";
  EXPECT_EQ(notes({"strategy.kind=local-sgd", "strategy.period=40", "strategy.begin_epoch=3"}), "");
}

TEST(PlanNotes, NameWhatIsNeverReached) {
  EXPECT_EQ(
      notes({"schedule.kind=piecewise", "schedule.milestones=2,4,30"}),
      "schedule     never reached: schedule.milestones 4, 30; training ends after 4 epochs (train.epochs)\n");
  EXPECT_EQ(notes({"train.epochs=0", "train.steps=5", "schedule.warmup_epochs=0.5"}),
            "schedule     never over: schedule.warmup_epochs = 0.5; training ends after 0.5 epochs "
            "(train.steps)\n");
  EXPECT_EQ(notes({"strategy.kind=local-sgd", "strategy.period=41"}),
            "local steps  strategy.period = 41 is longer than the run of 40 steps: no models are averaged "
            "meanwhile\n");
  EXPECT_EQ(notes({"strategy.kind=local-sgd", "strategy.period=2", "strategy.begin_step=40"}),
            "local steps  never begin (strategy.begin_step): the run ends with step 40\n");
}

TEST(RateJump, IsNamedWithBothRates) {
  const Texts cosine = {"schedule.kind=cosine"};
  const Texts longer = {"schedule.kind=cosine", "train.epochs=8"};
  const std::string stretched =
      ": schedule.kind = \"cosine\" decays over the whole run, 8 epochs now and 4 then; ";

  EXPECT_EQ(jump(longer, saved(cosine, 40))
                .find("the learning rate goes on at 0.05, where the checkpoint's deck has 0" + stretched),
            0U)
      << jump(longer, saved(cosine, 40));
  EXPECT_EQ(
      jump(longer, saved(cosine, 20))
          .find("the learning rate goes on at 0.0853553, where the checkpoint's deck has 0.05" + stretched),
      0U)
      << jump(longer, saved(cosine, 20));
  EXPECT_EQ(
      jump({"schedule.kind=cosine", "schedule.learning_rate=0.01"}, saved(cosine, 20)),
      "the learning rate goes on at 0.005, where the checkpoint's deck has 0.05, as run.resume_with allows");
}

TEST(RateJump, IsThatOfAnotherBatchWhereStepsEndTheRun) {
  const Texts steps = {"schedule.kind=cosine", "train.epochs=0", "train.steps=40"};
  CheckpointState half = saved(steps, 20);
  half.samples = 100;  // 5 in each step
  half.position = {1, 0};

  const std::string text = jump(steps, half);

  EXPECT_EQ(text.find("the learning rate goes on at 0.075, where the checkpoint's deck has 0.05: "
                      "schedule.kind = \"cosine\" decays over the whole run, 3 epochs now and 2 then; "),
            0U)
      << text;
  half.samples = 200;
  half.position = {2, 0};
  EXPECT_EQ(jump(steps, half), "");
}

TEST(RateJump, CountsTheStepsOfSharesInBatchesOfThen) {
  const Texts steps = {"schedule.kind=cosine", "train.epochs=0", "train.steps=40"};
  CheckpointState epoch = saved(steps, 9);  // 9 steps of 200 samples, 100 for each worker
  epoch.samples = 1800;
  epoch.position = {1, 0};

  const std::string text =
      rate_jump(with(steps), {.samples = 1000, .workers = 2, .batch = 50, .shares = {0, 100, 1000}}, epoch);

  EXPECT_TRUE(test::mentions(text, {"decays over the whole run, 2.722 epochs now and 4.444 then; "}));
}

TEST(RateJump, IsNoneWhereTheRateGoesOn) {
  const Texts cosine = {"schedule.kind=cosine"};

  EXPECT_EQ(jump(cosine, saved(cosine, 20)), "");
  EXPECT_EQ(jump(cosine, saved(cosine, 40)), "");
  EXPECT_EQ(jump({"train.epochs=8"}, saved({}, 20)), "");
}

}  // namespace
}  // namespace flotilla
