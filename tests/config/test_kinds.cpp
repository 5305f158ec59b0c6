// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "src/config/suggestions.hpp"
#include "tests/config/deck_support.hpp"

namespace flotilla {
namespace {

using test::good_deck;
using test::load;
using test::mistakes_of;
using test::one;
using Texts = std::vector<std::string>;

Texts operator+(Texts one, const Texts& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

TEST(Kinds, AKeyOfAnotherKindIsAMistakeInOneSource) {
  EXPECT_EQ(mistakes_of(good_deck + "[optimizer]\nkind = \"sgd\"\nbeta1 = 0.5\n"),
            one("bad.toml:15:9",
                "optimizer.beta1 needs optimizer.kind to be one of \"lamb\", \"adam\", \"adamw\", it "
                "is \"sgd\""));
  EXPECT_EQ(
      mistakes_of(good_deck + "base_batch = 3\n"),
      one("bad.toml:13:14", "schedule.base_batch needs schedule.scale_with_batch to be true, it is false"));
  EXPECT_NE(mistakes_of(good_deck, {"optimizer.kind=adam", "optimizer.momentum=0.5"}), "");
  EXPECT_NE(mistakes_of(good_deck, {"optimizer.momentum=0.5"}), "");
}

TEST(Kinds, AKindChangedOnTheCommandLineDropsTheDecksKeysOfTheOldOne) {
  const std::string deck =
      good_deck + "[optimizer]\nkind = \"adam\"\nbeta1 = 0.5\nbeta2 = 0.6\nepsilon = 1e-6\n";

  const LoadedDeck loaded = load(deck, {"optimizer.kind=adagrad"});

  EXPECT_EQ(loaded.notes, Texts{"left out of the deck, because the command line says optimizer.kind=adagrad: "
                                "optimizer.beta1, optimizer.beta2"});
  EXPECT_EQ(loaded.config.optimizer.beta1, OptimizerConfig{}.beta1);
  EXPECT_EQ(loaded.config.optimizer.epsilon, 1e-6);
  EXPECT_TRUE(load(deck, {"optimizer.kind=adamw"}).notes.empty());
}

TEST(Kinds, AKeyThatNeitherTheOldNorTheNewKindKnowsStaysAMistake) {
  const std::string deck = good_deck + "[optimizer]\nkind = \"adam\"\nmomentum = 0.5\n";

  EXPECT_NE(mistakes_of(deck, {"optimizer.kind=adagrad"}), "");
}

TEST(Kinds, AWrongKindDoesNotMakeItsKeysWrong) {
  EXPECT_EQ(
      mistakes_of(good_deck + "[optimizer]\nkind = \"adm\"\nbeta1 = 0.5\n").find("the deck has 1 mistake"),
      0U);
}

TEST(Presets, AreTheKeysThatTheySet) {
  const LoadedDeck preset = load(good_deck, {"strategy.preset=slowmo"});
  const LoadedDeck keys =
      load(good_deck, {"strategy.kind=local-sgd", "strategy.period=48", "strategy.outer.kind=momentum",
                       "strategy.outer.learning_rate=1", "strategy.outer.momentum=0.5"});

  EXPECT_EQ(preset.config.resolved_text, keys.config.resolved_text);
  EXPECT_TRUE(differences_at_resume(keys.config.resolved_text, preset.config.resolved_text).empty());
  EXPECT_EQ(preset.notes,
            Texts{"preset       \"slowmo\" sets strategy.kind = \"local-sgd\", strategy.outer.kind = "
                  "\"momentum\", strategy.outer.learning_rate = 1.0, strategy.outer.momentum = 0.5, "
                  "strategy.period = 48"});
  EXPECT_EQ(load(good_deck + "[strategy]\npreset = \"slowmo\"\n").config.resolved_text,
            keys.config.resolved_text);
}

TEST(Presets, GiveWayToGivenKeys) {
  for (const Texts& typed : {Texts{}, Texts{"strategy.preset=slowmo"}}) {
    const LoadedDeck loaded = load(good_deck + "[strategy]\nkind = \"local-sgd\"\nperiod = 7\n" +
                                       (typed.empty() ? "preset = \"slowmo\"\n" : ""),
                                   typed + Texts{"strategy.outer.momentum=0.25"});

    EXPECT_EQ(loaded.config.local_sgd()->period, 7);
    EXPECT_EQ(loaded.config.local_sgd()->outer.momentum, 0.25);
    EXPECT_EQ(loaded.config.local_sgd()->outer.kind, OuterKind::momentum);
    EXPECT_NE(loaded.notes.at(0).find("; given: strategy.kind = \"local-sgd\", strategy.period = 7, "
                                      "strategy.outer.momentum = 0.25"),
              std::string::npos)
        << loaded.notes[0];
  }
}

TEST(Presets, FollowTheKindOfStrategy) {
  const std::string synchronous = good_deck + "[strategy]\nkind = \"all-reduce\"\ncommunicators = 2\n";
  EXPECT_EQ(load(synchronous, {"strategy.preset=diloco"}).config.local_sgd()->period, 500);
  EXPECT_EQ(mistakes_of(synchronous + "preset = \"diloco\"\n"),
            one("bad.toml:16:10",
                "strategy.preset needs strategy.kind to be one of \"local-sgd\", \"adaptive-local-sgd\", it "
                "is \"all-reduce\""));
  const std::string diloco = good_deck + "[strategy]\npreset = \"diloco\"\n";
  EXPECT_NE(load(diloco, {"strategy.kind=all-reduce"}).config.all_reduce(), nullptr);
  const LoadedDeck adaptive = load(diloco, {"strategy.kind=adaptive-local-sgd"});
  EXPECT_EQ(adaptive.config.local_sgd()->outer.kind, OuterKind::nesterov);
  EXPECT_NE(
      mistakes_of(good_deck, {"strategy.preset=post-local"}).find("command line: strategy.preset=post-"),
      std::string::npos);
  EXPECT_EQ(mistakes_of(good_deck, {"strategy.preset=post-local", "strategy.begin_epoch=1"}), "");
  EXPECT_EQ(mistakes_of(good_deck, {"strategy.preset=streaming-diloco"}), "");
}

TEST(Suggestions, CountEdits) {
  EXPECT_EQ(config::edit_distance("", "abc"), 3U);
  EXPECT_EQ(config::edit_distance("abc", "abc"), 0U);
  EXPECT_EQ(config::edit_distance("abc", "acb"), 1U);
  EXPECT_EQ(config::edit_distance("momentun", "momentum"), 1U);
  EXPECT_EQ(config::edit_distance("kitten", "sitting"), 3U);
}

}  // namespace
}  // namespace flotilla
