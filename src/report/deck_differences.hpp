// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace flotilla::report {

/// The values of a deck as TOML by their keys' paths, "train.epochs". What is no TOML gives no values.
std::map<std::string, std::string> deck_values(const std::string& deck);

/// A key that has not the same value in all decks.
struct DeckDifference {
  std::string key;
  std::vector<std::string> values;  ///< One for each deck; empty where it lacks the key
};

/// The keys that differ, but for run.output, which is the run's own. @param decks texts of deck.toml
std::vector<DeckDifference> deck_differences(const std::vector<std::string>& decks);

}  // namespace flotilla::report
