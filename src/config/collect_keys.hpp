// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/config/deck_tree.hpp"
#include "src/config/mistakes.hpp"
#include "src/config/values.hpp"

namespace flotilla::config {

/// An override that a file holds.
struct PlacedOverride {
  std::string text;   ///< "train.epochs=3"
  std::string place;  ///< "plan.toml:7:8", for messages
};

/// A value that the deck or the command line gives for a key.
struct Given {
  Value value;
  Origin origin;
  std::vector<DeckPosition> elements = {};  ///< Positions of the elements of a deck's array
};

/// All given values by the keys' paths. They have the key's type and keep its rule.
struct DeckValues {
  std::map<std::string, Given, std::less<>> deck;
  std::map<std::string, Given, std::less<>> overrides;
  /// Paths of keys and tables whose mistake is already reported: no second one is made of them.
  std::set<std::string, std::less<>> unusable;

  /// The given value of the key: the override, otherwise the deck's value, otherwise null.
  const Given* find(std::string_view path) const;
  /// The origin of an element of an array; without a place in the deck's text for a default.
  Origin origin_of(std::string_view path, std::size_t element) const;
  /// Whether a mistake about the key, or about the table that it is in, is already reported.
  bool is_unusable(std::string_view path) const;
};

/// Sorts a deck's values to their keys. Unknown keys, wrong types and broken rules become mistakes.
void collect_deck(const Table& deck, DeckValues& given, Mistakes& mistakes);

/// Sorts overrides, "key.path=value", to their keys; of two for one key the last holds. Unknown keys, wrong
/// types and broken rules become mistakes.
/// @param written those of a file, over which the command line's are laid
void collect_overrides(const std::vector<PlacedOverride>& written, const std::vector<std::string>& overrides,
                       DeckValues& given, Mistakes& mistakes);

struct WrongType {
  DeckPosition position;
  std::string got;  ///< "a string", "a string in it"
};

/// The node as a value of the type of `like`; an integer will do for a number.
std::variant<Value, WrongType> read_value(const Node& node, const Value& like);

/// Parses the text after the "=" of an override: TOML with two exceptions: if a string is expected, text
/// without quotes is one, and an array needs no brackets.
/// Empty if the text is not a value of the same type as `like`.
std::optional<Value> value_from_text(std::string_view text, const Value& like);

}  // namespace flotilla::config
