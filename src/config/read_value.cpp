// SPDX-License-Identifier: Apache-2.0
#include "src/config/read_value.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace flotilla::config {
namespace {

/// A scalar of the tree as T; an integer will do for a number.
template <class T>
std::optional<T> scalar_as(const Node& node) {
  if (const T* held = std::get_if<T>(&node.value)) return *held;
  return std::nullopt;
}

template <>
std::optional<double> scalar_as<double>(const Node& node) {
  if (const double* held = std::get_if<double>(&node.value)) return *held;
  if (const auto* integer = std::get_if<std::int64_t>(&node.value)) return static_cast<double>(*integer);
  return std::nullopt;
}

template <class T>
struct Reader {
  static std::variant<Value, WrongType> read(const Node& node) {
    if (auto value = scalar_as<T>(node)) return Value(std::move(*value));
    return WrongType{node.position, node.type()};
  }
};

template <class T>
struct Reader<std::vector<T>> {
  static std::variant<Value, WrongType> read(const Node& node) {
    const auto* items = std::get_if<std::vector<Node>>(&node.value);
    if (items == nullptr) return WrongType{node.position, node.type()};
    std::vector<T> values;
    for (const Node& item : *items) {
      auto value = scalar_as<T>(item);
      if (!value) return WrongType{item.position, item.type() + " in it"};
      values.push_back(std::move(*value));
    }
    return Value(std::move(values));
  }
};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// The text as one TOML value; empty: it is none.
std::optional<Node> parse_value(std::string_view text) {
  auto parsed = parse_toml("v = " + std::string(text));
  auto* const table = std::get_if<Table>(&parsed);
  if (table == nullptr || table->size() != 1 || table->front().name != "v") return std::nullopt;
  return std::move(table->front().node);
}

/// The text as TOML. Where a string is wanted, text without quotes is one, whatever TOML would take it for;
/// empty: a quoted string that is none.
std::optional<Node> parse_word(std::string_view text, bool wants_string) {
  const std::string_view word = trimmed(text);
  const bool quoted = word.starts_with('"') || word.starts_with('\'');
  if (wants_string && !quoted) return Node{std::string(text), {}};
  if (auto node = parse_value(word)) return node;
  if (quoted) return std::nullopt;
  return Node{std::string(text), {}};
}

/// Where the element that the text begins with ends: its comma outside of quotes and brackets, or the end.
std::size_t end_of_element(std::string_view text) {
  char quote = 0;
  int brackets = 0;
  bool begins = true;  // only blanks since the last comma or bracket
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    const bool blank = letter == ' ' || letter == '\t';
    const bool first =
        std::exchange(begins, blank ? begins : letter == ',' || letter == '[' || letter == '{');
    if (quote != 0) {
      if (letter == '\\' && quote == '"') ++i;
      if (letter == quote) quote = 0;
    } else if ((letter == '"' || letter == '\'') && first) {
      quote = letter;
    } else if (letter == '[' || letter == '{') {
      ++brackets;
    } else if (letter == ']' || letter == '}') {
      --brackets;
    } else if (letter == ',' && brackets <= 0) {
      return i;
    }
  }
  return text.size();
}

/// The text as an array, whose brackets may be missing and whose elements may be words.
std::optional<Node> parse_array(std::string_view text, bool wants_strings) {
  text = trimmed(text);
  if (text.empty()) return std::nullopt;  // "[]" is the empty array
  if (auto node = parse_value(text); node && std::holds_alternative<std::vector<Node>>(node->value))
    return node;
  if (text.front() == '[' && text.back() == ']' && end_of_element(text) == text.size())
    text = trimmed(text.substr(1, text.size() - 2));
  std::vector<Node> items;
  while (!text.empty()) {
    const std::size_t end = std::min(end_of_element(text), text.size());
    const auto item = parse_word(trimmed(text.substr(0, end)), wants_strings);
    if (!item) return std::nullopt;
    items.push_back(*item);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return Node{std::move(items), {}};
}

}  // namespace

std::variant<Value, WrongType> read_value(const Node& node, const Value& like) {
  return std::visit([&]<class T>(const T&) { return Reader<T>::read(node); }, like);
}

std::optional<Value> value_from_text(std::string_view text, const Value& like) {
  const bool is_array = like.index() >= 4;  // behind the scalars
  const bool strings =
      std::holds_alternative<std::string>(like) || std::holds_alternative<std::vector<std::string>>(like);
  const std::optional<Node> node = is_array ? parse_array(text, strings) : parse_word(text, strings);
  if (!node) return std::nullopt;
  const auto read = read_value(*node, like);
  const Value* const value = std::get_if<Value>(&read);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

}  // namespace flotilla::config
