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
