// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "tests/config/random_deck.hpp"

namespace flotilla {
namespace {

TEST(RandomDecks, ReadBackFromTheirResolvedText) {
  setenv("HOME", "/home/me", 1);
  const std::uint64_t seed = std::random_device()();
  std::cout << "seed " << seed << std::endl;
  test::Random random(seed);

  const int refused = test::load_random_decks(random, 50);

  EXPECT_LT(refused, 50);
}

}  // namespace
}  // namespace flotilla
