// SPDX-License-Identifier: Apache-2.0
// Keys of arrays that exclude each other.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/config/deck_support.hpp"

namespace flotilla {
namespace {

const std::string deck =
    "[model]\nwidths = [8]\nclasses = 3\n"
    "[data]\nkind = \"hdf5\"\ntrain.path = \"a.h5\"\n"
    "[train]\nepochs = 2\nbatch_size = 10\n[schedule]\nlearning_rate = 0.1\n";

TEST(ArrayRules, ScalesOfPixelsAndOfInputsExcludeEachOtherEvenAsTheirDefaults) {
  for (const char* pixels : {"data.mean", "data.std"}) {
    for (const char* inputs : {"data.input_mean", "data.input_std"}) {
      const std::string mistakes =
          test::mistakes_of(deck, {std::string(pixels) + "=0.5", std::string(inputs) + "=[1.0]"});
      EXPECT_NE(mistakes.find(std::string(inputs) + " and " + pixels + " exclude each other here"),
                std::string::npos)
          << mistakes;
    }
    EXPECT_TRUE(test::load(deck, {std::string(pixels) + "=0.5"}).config.data.pixel_scale_given);
  }
}

TEST(ArrayRules, AResolvedDeckIsAcceptedBesideArraysOfAnyType) {
  for (const std::vector<std::string>& given : {std::vector<std::string>{}, {"data.input_mean=[1.0]"}}) {
    const Config config = test::load(deck, given).config;
    EXPECT_FALSE(config.data.pixel_scale_given);
    const Config again = test::load(config.resolved_text).config;
    EXPECT_FALSE(again.data.pixel_scale_given);
    EXPECT_EQ(again.data.mean, 0.5);
  }
  const Config pixels = test::load(test::load(deck, {"data.mean=0.25"}).config.resolved_text).config;
  EXPECT_EQ(pixels.data.mean, 0.25);
}

TEST(ArrayRules, WhatIsLeftToTheDataStaysSoInTheResolvedDeck) {
  const std::string open = deck.substr(0, deck.find("classes")) + deck.substr(deck.find("[data]"));
  for (const std::string given : {"data.input_mean=auto", "data.input_mean=\"auto\""}) {
    const Config config = test::load(open, {given}).config;
    EXPECT_TRUE(is_auto(config.data.input_mean));
    EXPECT_EQ(config.model.classes, 0);
    EXPECT_NE(config.resolved_text.find("input_mean = \"auto\"\n"), std::string::npos);
    EXPECT_EQ(config.resolved_text.find("\nclasses"), std::string::npos);
    EXPECT_TRUE(is_auto(test::load(config.resolved_text).config.data.input_mean));
  }
  EXPECT_NE(test::mistakes_of(open, {"data.input_mean=automatic"}).find("an array of numbers"),
            std::string::npos);
  EXPECT_NE(test::mistakes_of(open, {"data.kind=random", "data.shape=[2]", "data.train.samples=4"})
                .find("model.classes is missing"),
            std::string::npos);
}

TEST(ArrayRules, KeysOfTablesAreOfTables) {
  const std::string table = deck + "[data.validation]\npath = \"b.csv\"\n";
  const std::vector<std::string> csv = {"data.kind=csv", "data.target_columns=y"};
  const auto with = [&](const std::string& more) {
    std::vector<std::string> all = csv;
    all.push_back(more);
    return test::mistakes_of(table, all);
  };
  EXPECT_EQ(test::mistakes_of(table, csv), "");
  EXPECT_NE(with("data.delimiter=x").find("data.delimiter"), std::string::npos);
  EXPECT_NE(with("data.fill_missing=none").find("must be \"mean\" or a number"), std::string::npos);
  EXPECT_EQ(with("data.fill_missing=-1.5"), "");
  for (const char* fill : {"0", "-1.5", "\"0\"", "\"mean\""}) {
    std::string filled = table;
    filled.insert(filled.find("kind = "), std::string("fill_missing = ") + fill + "\n");
    EXPECT_EQ(test::mistakes_of(filled, csv), "");
  }
  EXPECT_NE(with("data.target_columns=y,z").find("names 2 columns, but a label is one column"),
            std::string::npos);
  EXPECT_NE(test::mistakes_of(table, {"data.kind=csv"}).find("data.target_columns is missing"),
            std::string::npos);
  EXPECT_NE(test::mistakes_of(table, {"data.header=false"}).find("needs data.kind to be"), std::string::npos);
}

TEST(ArrayRules, EachPartMayNameArraysOfItsOwn) {
  const std::string parts = deck + "[data.validation]\npath = \"a.h5\"\ninputs = \"x_test\"\n";
  const DataConfig data = test::load(test::load(parts, {"data.targets=y"}).config.resolved_text).config.data;
  EXPECT_EQ(data.inputs_of(data.train), "images");
  EXPECT_EQ(data.inputs_of(data.validation), "x_test");
  EXPECT_EQ(data.targets_of(data.train), "y");
  EXPECT_EQ(data.targets_of(data.validation), "y");
  for (const char* key : {"inputs", "targets"})
    EXPECT_EQ(test::mistakes_of(deck + "[data.validation]\n" + key + " = \"x\"\n"),
              test::one(key[0] == 'i' ? "bad.toml:13:10" : "bad.toml:13:11",
                        std::string("data.validation.") + key +
                            " needs data.validation.path: the file that this array is in"));
  EXPECT_EQ(test::mistakes_of(parts, {"data.validation.path="}), "") << "no validation";
  EXPECT_NE(test::mistakes_of(deck, {"data.kind=cifar", "data.train.inputs=x"}), "");
}

}  // namespace
}  // namespace flotilla
