// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "src/config/keys.hpp"
#include "tests/config/deck_support.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

namespace fs = std::filesystem;
using test::good_deck;
using test::load;
using Texts = std::vector<std::string>;

const std::string idx_deck =
    "[model]\nwidths = [8]\nclasses = 3\ninitial_weights = \"../start.h5\"\n"
    "[data.train]\nimages = \"data/i.gz\"\nlabels = \"/abs/./l.gz\"\n"
    "[train]\nsteps = 2\nglobal_batch_size = 10\n"
    "[schedule]\nlearning_rate = 0.1\n";

std::string here(const std::string& path) {
  return (fs::current_path() / path).lexically_normal().string();
}

void expect_equal(const Config& a, const Config& b) {
  for (const config::Key& key : config::all_keys()) {
    EXPECT_EQ(key.field.read(a), key.field.read(b)) << key.path;
  }
  EXPECT_EQ(a.data.train.given, b.data.train.given);
  EXPECT_EQ(a.data.validation.given, b.data.validation.given);
  EXPECT_EQ(a.resolved_text, b.resolved_text);
}

TEST(ResolvedDeck, LoadsAgainToTheSameConfig) {
  const std::vector<Texts> variants = {
      {},
      {"optimizer.kind=adam", "optimizer.epsilon=1e-7", "optimizer.no_decay=biases"},
      {"optimizer.kind=adamw", "optimizer.weight_decay=0.01"},
      {"optimizer.kind=lars", "optimizer.momentum=0.1"},
      {"schedule.kind=piecewise", "schedule.milestones=1e-30,0.3,2.5e17",
       "schedule.learning_rate=0.30000000000000004"},
      {"schedule.kind=cosine", "schedule.scale_with_batch=true", "schedule.base_batch=64"},
      {"model.initializer=normal", "model.initializer_scale=0.02", "run.resume=some/\"folder\\x"},
      {"data.validation.samples=7", "train.epochs=1000000000000", "train.global_batch_size=4"},
  };
  for (const Texts& overrides : variants) {
    const Config first = load(good_deck, overrides).config;

    const Config second =
        load_deck({.path = "/elsewhere/x.toml", .text = first.resolved_text, .overrides = {}}).config;

    expect_equal(first, second);
  }
  const Config idx = load(idx_deck).config;
  expect_equal(idx,
               load_deck({.path = "/elsewhere/x.toml", .text = idx.resolved_text, .overrides = {}}).config);
}

TEST(ResolvedDeck, HoldsEveryKeyThatItsKindsKnowAndNoOther) {
  const Config config = load(good_deck).config;

  for (const config::Key& key : config::all_keys()) {
    const bool optional = key.presence == config::Necessity::optional;
    const bool written = config.resolved_text.find("\n" + key.name() + " = ") != std::string::npos;
    if (config::is_active(key, config) && !optional) {
      EXPECT_TRUE(written) << key.path;
    }
  }
  for (const char* other : {"momentum", "beta1", "images", "milestones", "global_batch_size", "mean"}) {
    EXPECT_EQ(config.resolved_text.find("\n" + std::string(other) + " = "), std::string::npos) << other;
  }
}

TEST(Paths, InputsInADeckAreRelativeToTheDeck) {
  const Config config =
      load_deck({.path = "some/../inputs/a.toml", .text = idx_deck, .overrides = {}}).config;

  EXPECT_EQ(config.data.train.images, here("inputs/data/i.gz"));
  EXPECT_EQ(config.data.train.labels, "/abs/l.gz");
  EXPECT_EQ(config.model.initial_weights, here("start.h5"));
}

TEST(Paths, TwoDotsBehindALinkToAFolderLeadAboveItsTarget) {
  const test::TemporaryFolder scratch;
  const fs::path folder = fs::canonical(scratch.path());
  fs::create_directories(folder / "project/decks");
  fs::create_directory_symlink("project/decks", folder / "decks");
  const DeckSource deck = {.path = folder / "decks/a.toml", .text = idx_deck, .overrides = {}};

  const std::string of_nothing = load_deck(deck).config.model.initial_weights;
  std::ofstream(folder / "project/start.h5") << "here";
  const std::string of_a_file = load_deck(deck).config.model.initial_weights;

  EXPECT_EQ(of_nothing, folder / "start.h5");
  EXPECT_EQ(of_a_file, folder / "project/start.h5");
}

TEST(Paths, OnTheCommandLineTheyAreRelativeToTheCurrentFolder) {
  const Config config = load_deck({.path = "inputs/a.toml",
                                   .text = idx_deck,
                                   .overrides = {"data.train.images=i.gz", "run.resume=runs/x/"}})
                            .config;

  EXPECT_EQ(config.data.train.images, here("i.gz"));
  EXPECT_EQ(config.run.resume, here("runs/x"));
}

TEST(Paths, TheOutputIsRelativeToTheCurrentFolderAlways) {
  const DeckSource by_default = {.path = "inputs/a.b.toml", .text = idx_deck, .overrides = {}};
  const DeckSource in_deck = {
      .path = "inputs/a.toml", .text = idx_deck + "[run]\noutput = \"out/\"\n", .overrides = {}};

  EXPECT_EQ(load_deck(by_default).config.run.output, here("runs/a.b"));
  EXPECT_EQ(load_deck(in_deck).config.run.output, here("out"));
}

TEST(Paths, AutoNeverAndStepsAreNoFiles) {
  EXPECT_EQ(load(good_deck).config.run.resume, "auto");
  EXPECT_EQ(load(good_deck, {"run.resume=never"}).config.run.resume, "never");
  EXPECT_EQ(load(good_deck, {"run.resume=./never"}).config.run.resume, here("never"));
  EXPECT_EQ(load(good_deck, {"run.resume=step-40"}).config.run.resume, "step-40");
  EXPECT_EQ(load(good_deck, {"run.resume=./step-40"}).config.run.resume, here("step-40"));
  EXPECT_EQ(load(good_deck, {"run.resume=step-40.h5"}).config.run.resume, here("step-40.h5"));
  EXPECT_EQ(load(good_deck, {"run.resume=step-99999999999999999999"}).config.run.resume,
            here("step-99999999999999999999"));
}

/// The first difference that a resume does not allow by itself; empty: none.
std::string difference_at_resume(const std::string& saved, const std::string& current) {
  for (const ResumeDifference& difference : differences_at_resume(saved, current))
    if (difference.on_resume != config::OnResume::may_change && !difference.is_of_machine())
      return difference.text();
  return "";
}

TEST(Resuming, WhatMayChangeMakesNoDifference) {
  const std::string saved = load(good_deck).config.resolved_text;
  const std::string current =
      load(good_deck, {"train.epochs=20", "train.batch_size=5", "run.output=x", "device.threads=2",
                       "checkpoint.every=3", "strategy.bucket_mb=8", "validation.every=2", "data.threads=3"})
          .config.resolved_text;

  EXPECT_EQ(difference_at_resume(saved, current), "");
  EXPECT_EQ(difference_at_resume(saved, saved), "");
}

TEST(Resuming, AllThatChangedIsListed) {
  const std::string saved = load(good_deck, {"train.batch_size=16"}).config.resolved_text;
  const auto changes = [&](const Texts& overrides) {
    return changes_of(differences_at_resume(saved, load(good_deck, overrides).config.resolved_text));
  };

  EXPECT_EQ(changes({"train.batch_size=16", "run.output=x", "run.resume=never"}), "");
  EXPECT_EQ(changes({"train.batch_size=64", "device.threads=2", "data.threads=3"}),
            "device.threads 0 → 2, data.threads 1 → 3, train.batch_size 16 → 64");
  EXPECT_EQ(changes({"train.global_batch_size=64"}),
            "train.batch_size 16 → left out, train.global_batch_size left out → 64");
  EXPECT_EQ(changes({"train.batch_size=16", "strategy.kind=local-sgd", "strategy.period=4"}),
            "strategy.kind \"all-reduce\" → \"local-sgd\"");
}

TEST(Resuming, CheckpointsOfIdxFilesFromBeforeFlipsGoOn) {
  const std::string current =
      load_deck({.path = "a.toml", .text = idx_deck, .overrides = {}}).config.resolved_text;
  std::string saved = current;
  const std::size_t line = saved.find("flip = 0.0\n");
  ASSERT_NE(line, std::string::npos) << current;
  saved.erase(line, std::string("flip = 0.0\n").size());

  EXPECT_EQ(difference_at_resume(saved, current), "");
}

TEST(Resuming, ABadImageMayBeReplacedFromThenOn) {
  const auto saved_and = [](const Texts& overrides) {
    Texts all = {"data.kind=image-list", "data.train.path=l.txt"};
    const std::string saved = load(good_deck, all).config.resolved_text;
    all.insert(all.end(), overrides.begin(), overrides.end());
    return difference_at_resume(saved, load(good_deck, all).config.resolved_text);
  };

  EXPECT_EQ(saved_and({"data.on_bad_image=replace", "data.max_bad_images=7", "data.max_pixels=200000000",
                       "data.cache=files"}),
            "");
  EXPECT_EQ(saved_and({"data.flip=0.25"}), "data.flip: 0.5 in the checkpoint, 0.25 now");
}

TEST(Resuming, TheFirstDifferenceIsNamed) {
  const auto difference = [](const Texts& overrides) {
    return difference_at_resume(load(good_deck).config.resolved_text,
                                load(good_deck, overrides).config.resolved_text);
  };

  EXPECT_EQ(difference({"model.widths=64"}), "model.widths: [8] in the checkpoint, [64] now");
  EXPECT_EQ(difference({"optimizer.kind=adam"}), "optimizer.kind: \"sgd\" in the checkpoint, \"adam\" now");
  EXPECT_EQ(difference({"run.seed=2"}), "run.seed: 1 in the checkpoint, 2 now");
  EXPECT_EQ(difference({"data.train.samples=99"}), "data.train.samples: 100 in the checkpoint, 99 now");
  EXPECT_EQ(difference({"train.label_smoothing=0.1"}),
            "train.label_smoothing: 0.0 in the checkpoint, 0.1 now");
  EXPECT_EQ(difference({"schedule.learning_rate=0.2"}),
            "schedule.learning_rate: 0.1 in the checkpoint, 0.2 now");
}

TEST(Resuming, WithNamesKeysAndTablesThatMayChangeThen) {
  const auto allows = [](const std::string& named, const std::string& path) {
    return load(good_deck, {"run.resume_with=" + named}).config.run.resumes_with(path);
  };

  EXPECT_TRUE(allows("schedule", "schedule.learning_rate"));
  EXPECT_TRUE(allows("optimizer.weight_decay,train", "optimizer.weight_decay"));
  EXPECT_TRUE(allows("data.train.path", "data.train"));
  EXPECT_FALSE(allows("schedule.factor", "schedule.learning_rate"));
  EXPECT_FALSE(allows("data.train", "data.validation"));
}

TEST(Resuming, WithRefusesNamesThatAreNoneOrMustStay) {
  const auto mistake = [](const std::string& named) {
    return test::mistakes_of(good_deck + "[run]\nresume_with = [\"" + named + "\"]\n");
  };

  EXPECT_EQ(mistake("schedule"), "");
  EXPECT_NE(
      mistake("shedule").find("bad.toml:14:15: run.resume_with: \"shedule\" is no key or table; did you "
                              "mean \"schedule\"?"),
      std::string::npos)
      << mistake("shedule");
  EXPECT_NE(
      mistake("model.widths").find("bad.toml:14:15: run.resume_with: model.widths must be the checkpoint's"),
      std::string::npos)
      << mistake("model.widths");
}

TEST(Resuming, ASavedDeckOfAnotherVersionIsReadLeniently) {
  const std::string saved = load(good_deck).config.resolved_text;

  EXPECT_EQ(difference_at_resume(saved + "[future]\nkey = 1\n", saved), "");
  EXPECT_THROW(difference_at_resume("no deck", saved), UserError);
}

}  // namespace
}  // namespace flotilla
