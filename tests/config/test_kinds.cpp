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

TEST(Suggestions, CountEdits) {
  EXPECT_EQ(config::edit_distance("", "abc"), 3U);
  EXPECT_EQ(config::edit_distance("abc", "abc"), 0U);
  EXPECT_EQ(config::edit_distance("abc", "acb"), 1U);
  EXPECT_EQ(config::edit_distance("momentun", "momentum"), 1U);
  EXPECT_EQ(config::edit_distance("kitten", "sitting"), 3U);
}

}  // namespace
}  // namespace flotilla
