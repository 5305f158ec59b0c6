// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/deck_tree.hpp"
#include "src/config/mistakes.hpp"
#include "src/config/values.hpp"

namespace flotilla::config {

/// A value that somebody wrote for a key.
struct Given {
  Value value;
  Origin origin;
  std::vector<Position> elements = {};  ///< Of a deck's array
};

/// Everything that was written, by the keys' paths. What is here has the key's type and keeps its rule.
struct GivenValues {
  std::map<std::string, Given, std::less<>> deck;
  std::map<std::string, Given, std::less<>> overrides;
  /// Keys and tables that were meant but not understood: their mistake is already told.
  std::set<std::string, std::less<>> unusable;

  /// What holds for the key: the override, else the deck's value, else null.
  const Given* find(std::string_view path) const;
  /// Whether a mistake about the key, or about the table that it is in, is already told.
  bool is_unusable(std::string_view path) const;
};

/// Sorts a deck's values to their keys. Unknown keys, wrong types and broken rules become mistakes.
void collect_deck(const Table& deck, GivenValues& given, Mistakes& mistakes);

/// The same for "key.path=value". Of two for one key the last holds.
void collect_overrides(const std::vector<std::string>& overrides, GivenValues& given, Mistakes& mistakes);

}  // namespace flotilla::config
