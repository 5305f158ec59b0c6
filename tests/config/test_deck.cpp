// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/config/deck_support.hpp"

namespace flotilla {
namespace {

namespace fs = std::filesystem;
using test::good_deck;
using test::load;
using test::mistakes_of;

TEST(Deck, AGoodDeckFillsTheConfig) {
  const Config config = load(good_deck).config;

  EXPECT_EQ(config.model.widths, std::vector<std::int64_t>{8});
  EXPECT_EQ(config.model.classes, 3);
  EXPECT_EQ(config.data.kind, DataKind::random);
  EXPECT_EQ(config.data.train.samples, 100);
  EXPECT_TRUE(config.data.train.given);
  EXPECT_FALSE(config.data.validation.given);
  EXPECT_EQ(config.train.batch_size, 10);
  EXPECT_EQ(config.schedule.learning_rate, 0.1);
  EXPECT_EQ(config.optimizer.kind, OptimizerKind::sgd);
}

TEST(Deck, AllMistakesAreToldAtOnceInTheOrderOfTheText) {
  const std::string text =
      "[train]\nbatch_size    = -4\n[optimizer]\nmomentun = 0.9\nkind = \"momentum\"\n[strategy]\nkind = "
      "\"localsgd\"\n";

  const std::string mistakes = mistakes_of(text);

  EXPECT_EQ(mistakes.substr(0, mistakes.find("\n  bad.toml: ")),
            "the deck has 8 mistakes:\n"
            "  bad.toml:2:17: train.batch_size must be positive, got -4\n"
            "  bad.toml:4:1: optimizer.momentun is not a known key; did you mean \"momentum\"?\n"
            "  bad.toml:7:8: strategy.kind must be one of \"all-reduce\", \"local-sgd\", "
            "\"adaptive-local-sgd\", \"parameter-server\", got \"localsgd\"");
}

TEST(Deck, OneMistakeIsCalledOneMistake) {
  EXPECT_EQ(mistakes_of(good_deck + "factr = 1\n"),
            "the deck has 1 mistake:\n  bad.toml:13:1: schedule.factr is not a known key; did you mean "
            "\"factor\"?");
}

TEST(Deck, WordsThatAreTrueAndFalseNeedNoQuotes) {
  for (const auto& [text, meant] : std::map<std::string, Resident>{{"true", Resident::yes},
                                                                   {"false", Resident::no},
                                                                   {"\"false\"", Resident::no},
                                                                   {"\"auto\"", Resident::automatic}})
    EXPECT_EQ(load(good_deck + "[checkpoint]\nresident = " + text).config.checkpoint.resident, meant) << text;
  EXPECT_EQ(load(good_deck, {"checkpoint.resident=false"}).config.checkpoint.resident, Resident::no);
  EXPECT_NE(mistakes_of(good_deck + "[checkpoint]\nresident = 1")
                .find("checkpoint.resident must be a string, got an integer"),
            std::string::npos);
  EXPECT_NE(mistakes_of(good_deck + "[model]\nkind = true").find("model"), std::string::npos);
}

TEST(Deck, OverridesAreLaidOverTheDeck) {
  const Config config =
      load(good_deck, {"train.batch_size=20", "model.activation=relu", "model.widths=[3, 4]",
                       "run.trace=true", "schedule.learning_rate=1e-3"})
          .config;

  EXPECT_EQ(config.train.batch_size, 20);
  EXPECT_EQ(config.model.activation, Activation::relu);
  EXPECT_EQ(config.model.widths, (std::vector<std::int64_t>{3, 4}));
  EXPECT_TRUE(config.run.files.trace);
  EXPECT_EQ(config.schedule.learning_rate, 0.001);
}

TEST(Deck, AMistakeOfAnOverrideNamesTheCommandLine) {
  EXPECT_EQ(mistakes_of(good_deck, {"train.batch_size=-4"}),
            "the deck has 1 mistake:\n"
            "  command line: train.batch_size=-4: train.batch_size must be positive, got -4");
}

TEST(Deck, MissingKeysAreToldWithTheirHelp) {
  const std::string mistakes = mistakes_of("");

  for (const char* key :
       {"model.widths", "data.train.images", "data.train.labels", "schedule.learning_rate"}) {
    EXPECT_NE(mistakes.find("  bad.toml: " + std::string(key) + " is missing ("), std::string::npos) << key;
  }
  EXPECT_NE(mistakes.find("train.batch_size or train.global_batch_size must be given"), std::string::npos);
  EXPECT_NE(mistakes.find("train.epochs, train.steps or train.seconds must be given"), std::string::npos);
}

TEST(Deck, TheDecksInTheRepositoryAreGood) {
  const fs::path inputs = fs::path(FLOTILLA_SOURCE_DIR) / "inputs";
  int decks = 0;
  for (const auto& entry : fs::directory_iterator(inputs)) {
    if (entry.path().extension() != ".toml" || entry.path().filename() == "reference.toml") continue;
    ++decks;
    const std::string path = entry.path().string();
    EXPECT_NO_THROW(load_deck({.path = path, .text = read_deck_file(path), .overrides = {}})) << path;
  }
  EXPECT_GE(decks, 2);
}

TEST(Deck, TheReferenceInTheRepositoryIsTheKeyTable) {
  const fs::path path = fs::path(FLOTILLA_SOURCE_DIR) / "inputs" / "reference.toml";

  const std::string written = read_deck_file(path.string());

  const bool same = written == reference_deck();
  const fs::path wanted = fs::path(testing::TempDir()) / "reference.toml";  // ready to be copied
  if (!same) std::ofstream(wanted) << reference_deck();
  EXPECT_TRUE(same) << path << " is not what the key table says; " << wanted << " is";
}

TEST(Deck, KeysAreExplainedByTableKeyOrName) {
  const std::string table = explained_keys("run.emulate_straggler");
  EXPECT_TRUE(table.starts_with("[run.emulate_straggler]\n# Worker that is made slow")) << table;
  EXPECT_EQ(table.find("[run]"), std::string::npos);
  EXPECT_NE(explained_keys("run").find("[run.emulate_straggler]"), std::string::npos);
  EXPECT_EQ(explained_keys("run.log_every"),
            "[run]\n# Steps between reports.\n# An integer, positive.\nlog_every = 100\n");
  EXPECT_NE(explained_keys("learning_rate").find("[strategy.outer]\n"), std::string::npos);
  for (const config::Key& key : config::all_keys())
    EXPECT_NE(explained_keys("").find("\n" + key.name() + " ="),
              explained_keys("").find("\n# " + key.name() + " ="))
        << key.path;
  EXPECT_TRUE(explained_keys("run.log_e").starts_with("[run]\n# Steps between reports."));
  EXPECT_THROW(explained_keys("trian"), UserError);
}

}  // namespace
}  // namespace flotilla
