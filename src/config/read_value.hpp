// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "src/config/deck_tree.hpp"
#include "src/config/values.hpp"

namespace flotilla::config {

struct WrongType {
  DeckPosition position;
  std::string got;  ///< "a string", "a string in it"
};

/// The node as a value of the type of `like`; an integer will do for a number.
std::variant<Value, WrongType> read_value(const Node& node, const Value& like);

/// Parses the text after the "=" of an override: TOML, but for two liberties. Where a string is wanted, text
/// without quotes is one, and an array needs no brackets.
/// Empty if the text is not a value of the same type as `like`.
std::optional<Value> value_from_text(std::string_view text, const Value& like);

}  // namespace flotilla::config
