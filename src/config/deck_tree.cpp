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

// No key of a deck lies deeper; the parser frees nested tables by recursion, so that a name of many thousand
// "a.a.a" would overflow the stack.
constexpr std::int64_t max_dots_in_a_name = 256;
constexpr int max_completed_numbers = 1024;
constexpr int max_levels = 16;

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
  if (level > max_levels) {
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

/// The index after the string that begins at the quote text[begin]; the end of the text if it has none.
std::size_t end_of_string(const std::string& text, std::size_t begin) {
  const char quote = text[begin];
  const std::string three(3, quote);
  const bool has_lines = text.compare(begin, 3, three) == 0;
  for (std::size_t i = begin + (has_lines ? 3 : 1); i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (has_lines && text.compare(i, 3, three) == 0) {
      // Quotes before the last three belong to the string.
      return std::min(text.find_first_not_of(quote, i), text.size());
    } else if (!has_lines && (text[i] == quote || text[i] == '\n')) {
      return i + 1;
    }
  }
  return text.size();
}

/// The mistake of names, with those of the inline tables around them, that make too many tables.
std::optional<SyntaxMistake> too_deep(const std::string& text) {
  std::vector<std::int64_t> around;  // dots before each bracket that is open
  std::int64_t dots = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (letter == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (letter == '"' || letter == '\'') {
      i = end_of_string(text, i) - 1;
    } else if (letter == '.') {
      ++dots;
    } else if (letter == '[' || letter == '{') {
      around.push_back(dots);
    } else if (letter == ',' || letter == '\n') {
      dots = around.empty() ? 0 : around.back();
    } else if ((letter == ']' || letter == '}') && !around.empty()) {
      dots = around.back();
      around.pop_back();
    }
    if (dots > max_dots_in_a_name)
      return SyntaxMistake{
          {1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i), '\n'), 1},
          cat("a key with more than ", max_dots_in_a_name, " dots")};
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

/// Adds the zero that TOML requires and other languages do not, as in .05 and 1., where the parser found it
/// missing.
/// @returns whether it did
bool complete_number(std::string& text, const SyntaxMistake& mistake) {
  if (mistake.text.find("parsing floating-point: ") == std::string::npos) return false;
  std::size_t at = 0;
  for (std::int64_t line = 1; line < mistake.position.line; ++line) at = text.find('\n', at) + 1;
  for (std::int64_t column = 1; column < mistake.position.column && at < text.size(); ++at)
    if (at + 1 == text.size() || (static_cast<unsigned char>(text[at + 1]) & 0xC0U) != 0x80U) ++column;
  const auto is_digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  const bool leads = at < text.size() && text[at] == '.' && is_digit(at + 1);
  const bool trails = at > 1 && text[at - 1] == '.' && is_digit(at - 2);
  if (leads || trails) text.insert(at, 1, '0');
  return leads || trails;
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
  const std::string lower = lower_case(word);
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

std::variant<Table, SyntaxMistake> parse_toml(const std::string& deck) {
  std::string text = deck;
  if (const auto mistake = too_deep(text)) return *mistake;
  for (int completed = 0;; ++completed) {
    try {
      return make_table(toml::parse(text), 0);
    } catch (const toml::parse_error& error) {
      const SyntaxMistake mistake{position_of(error.source()), std::string(error.description())};
      if (completed == max_completed_numbers || !complete_number(text, mistake))
        return explained(mistake, text);
    }
  }
}

}  // namespace flotilla::config
