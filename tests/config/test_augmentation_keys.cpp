// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/config/deck_support.hpp"

namespace flotilla {
namespace {

using test::mistakes_of;

TEST(AugmentationKeys, CutMixNeedsImages) {
  const std::string deck =
      "[model]\nwidths = []\nclasses = 2\n[data]\nkind = \"random\"\nshape = [96]\ntrain.samples = 64\n"
      "[train]\nsteps = 1\nbatch_size = 16\n[schedule]\nlearning_rate = 1\n";
  EXPECT_EQ(mistakes_of(deck, {"train.cutmix=1"}),
            "the deck has 1 mistake:\n  command line: train.cutmix=1: train.cutmix exchanges parts of "
            "images, but a sample "
            "has 1 sizes instead of channels, height and width (data.shape)");
  EXPECT_EQ(mistakes_of(deck, {"train.cutmix=1", "data.shape=1,8,12"}), "");
}

TEST(AugmentationKeys, ErasedRectanglesHaveARange) {
  EXPECT_NE(mistakes_of(test::good_deck, {"data.erase_area=0.5,0.1"})
                .find("data.erase_area must be [least, largest]"),
            std::string::npos);
}

}  // namespace
}  // namespace flotilla
