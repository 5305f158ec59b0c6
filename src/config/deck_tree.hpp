// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace flotilla::config {

/// A place in a deck's text, counted from 1; line 0: nowhere.
struct DeckPosition {
  std::int64_t line = 0;
  std::int64_t column = 0;
};

struct Member;
using Table = std::vector<Member>;

/// A TOML value before its key's type is known.
struct Node {
  struct Unsupported {
    std::string text;  ///< "a date"
  };
  std::variant<Unsupported, bool, std::int64_t, double, std::string, std::vector<Node>, Table> value;
  DeckPosition position;

  /// The type for messages: "an integer", "an array", "a table", …
  std::string type() const;
};

struct Member {
  std::string name;
  DeckPosition position;  ///< Position of the name
  Node node;
};

struct SyntaxMistake {
  DeckPosition position;
  std::string text;
};

/// Parses a deck's text. @returns its tree, or the first syntax error
std::variant<Table, SyntaxMistake> parse_toml(const std::string& text);

}  // namespace flotilla::config
