// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/deck.hpp"

namespace flotilla::test {

/// A small good deck; its lines are numbered in the comments of the tests that count them.
inline const std::string good_deck =
    "[model]\n"
    "widths = [8]\n"
    "classes = 3\n"
    "[data]\n"
    "kind = \"random\"\n"
    "shape = [4]\n"
    "train.samples = 100\n"
    "[train]\n"
    "epochs = 2\n"
    "batch_size = 10\n"
    "[schedule]\n"
    "learning_rate = 0.1\n";

inline LoadedDeck load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return load_deck({.path = "bad.toml", .text = text, .overrides = overrides});
}

/// The text of the mistakes in a deck; empty if there are none.
inline std::string mistakes_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    load(text, overrides);
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

/// The text of a single mistake, at "bad.toml:15:9".
inline std::string one(const std::string& place, const std::string& mistake) {
  return "the deck has 1 mistake:\n  " + place + ": " + mistake;
}

}  // namespace flotilla::test
