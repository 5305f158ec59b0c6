// SPDX-License-Identifier: Apache-2.0
#include "src/config/deck_tree.hpp"

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <sstream>

#include "kernels/error.hpp"
#include "src/config/values.hpp"

namespace flotilla::config {
namespace {

// No key of a deck lies deeper; the parser frees nested tables by recursion, so that a line of many thousand
// "a.a.a" would overflow the stack.
constexpr std::int64_t most_levels_in_a_line = 256;
constexpr int most_levels = 16;

DeckPosition position_of(const toml::source_region& source) {
  return {static_cast<std::int64_t>(source.begin.line), static_cast<std::int64_t>(source.begin.column)};
}

Node make_node(const toml::node& from, int level);

Table make_table(const toml::table& from, int level) {
  Table members;
  for (const auto& [key, node] : from) {
    members.push_back({std::string(key.str()), position_of(key.source()), make_node(node, level + 1)});
  }
  return members;
}

Node make_node(const toml::node& from, int level) {
  Node node;
  node.position = position_of(from.source());
  if (level > most_levels) {
    node.value = Node::Unsupported{"a deeply nested value"};
  } else if (const auto* table = from.as_table()) {
    node.value = make_table(*table, level);
  } else if (const auto* array = from.as_array()) {
    std::vector<Node> items;
    for (const toml::node& item : *array) items.push_back(make_node(item, level + 1));
    node.value = std::move(items);
  } else if (const auto* text = from.as_string()) {
    node.value = text->get();
  } else if (const auto* integer = from.as_integer()) {
    node.value = integer->get();
  } else if (const auto* number = from.as_floating_point()) {
    node.value = number->get();
  } else if (const auto* boolean = from.as_boolean()) {
    node.value = boolean->get();
  } else {
    node.value = Node::Unsupported{"a date or time"};
  }
  return node;
}

std::optional<SyntaxMistake> too_deep(const std::string& text) {
  std::int64_t line = 1;
  std::int64_t levels = 0;
  for (const char letter : text) {
    if (letter == '.') ++levels;
    if (letter == '\n') {
      ++line;
      levels = 0;
    }
    if (levels > most_levels_in_a_line) {
      return SyntaxMistake{{line, 1}, cat("a line with more than ", most_levels_in_a_line, " dots")};
    }
  }
  return std::nullopt;
}

/// Line `number` of the text, counted from 1.
std::string line_of(const std::string& text, std::int64_t number) {
  std::istringstream lines(text);
  std::string line;
  for (std::int64_t i = 0; i < number; ++i) std::getline(lines, line);
  return line;
}

/// The mistake in a line that gives a string without quotes; nothing: it does not.
std::optional<SyntaxMistake> unquoted_string(const std::string& line, std::int64_t number) {
  const std::size_t equals = line.find('=');
  if (equals == std::string::npos || line.find_first_of("\"'") != std::string::npos) return std::nullopt;
  const std::size_t begin = line.find_first_not_of(" \t[", equals + 1);
  if (begin == std::string::npos) return std::nullopt;
  const bool is_letter = std::isalpha(static_cast<unsigned char>(line[begin])) != 0;
  if (!is_letter && std::string_view("/~$._").find(line[begin]) == std::string_view::npos)
    return std::nullopt;
  const std::string word = printable(line.substr(begin, line.find_first_of(" \t\r,]#", begin) - begin));
  std::string lower = word;
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  const DeckPosition position{number, static_cast<std::int64_t>(begin) + 1};
  if (lower == "true" || lower == "false")
    return SyntaxMistake{position, cat(word, " is not a value: true and false are written in lower case")};
  return SyntaxMistake{position, cat("strings need quotes: \"", word, "\" instead of ", word)};
}

/// The mistake in a line with quotes of print instead of those of TOML; nothing: it has none.
std::optional<SyntaxMistake> quotes_of_print(const std::string& line, std::int64_t number) {
  for (const std::string_view quote : {"\u201c", "\u201d", "\u201e", "\u2018", "\u2019"})
    if (const std::size_t at = line.find(quote); at < line.find_first_of("\"'"))
      return SyntaxMistake{{number, static_cast<std::int64_t>(at) + 1},
                           cat("strings need the quotes \" or ', not ", quote)};
  return std::nullopt;
}

/// Whether no line of a deck may hold the letter.
bool is_control(char letter) {
  return std::iscntrl(static_cast<unsigned char>(letter)) != 0 && letter != '\t' && letter != '\r';
}

/// The parser's mistake, or a plainer one where it is often made.
SyntaxMistake explained(SyntaxMistake mistake, const std::string& text) {
  const std::int64_t line = mistake.position.line;
  if (auto unquoted = unquoted_string(line_of(text, line), line)) return *unquoted;
  if (auto printed = quotes_of_print(line_of(text, line), line)) return *printed;
  if (mistake.text.find("control characters other than TAB") != std::string::npos &&
      std::ranges::none_of(line_of(text, line), is_control))
    mistake.text = "a string has no end in its line: close it with the quote that it begins with";
  if (mistake.text.find("invalid utf-8") != std::string::npos) mistake.text += ": save the deck as UTF-8";
  if (mistake.text.find("cannot redefine existing table") != std::string::npos)
    mistake.text +=
        ": a line such as model.widths = [64] makes the table [model] too; write its keys below one [model]";
  return mistake;
}

}  // namespace

std::string Node::type() const {
  static constexpr std::array<const char*, std::variant_size_v<decltype(value)>> names = {
      "", "true or false", "an integer", "a number with a fraction", "a string", "an array", "a table"};
  if (const auto* unsupported = std::get_if<Unsupported>(&value)) return unsupported->text;
  return names.at(value.index());
}

std::variant<Table, SyntaxMistake> parse_toml(const std::string& text) {
  if (const auto mistake = too_deep(text)) return *mistake;
  try {
    return make_table(toml::parse(text), 0);
  } catch (const toml::parse_error& error) {
    return explained({position_of(error.source()), std::string(error.description())}, text);
  }
}

}  // namespace flotilla::config
