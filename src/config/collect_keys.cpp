// SPDX-License-Identifier: Apache-2.0
#include "src/config/collect_keys.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/keys.hpp"
#include "src/config/suggestions.hpp"

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

/// The text as TOML. If a string is expected, text without quotes is one, even if TOML reads it otherwise;
/// empty: a malformed quoted string.
std::optional<Node> parse_word(std::string_view text, bool wants_string) {
  const std::string_view word = trimmed(text);
  const bool quoted = word.starts_with('"') || word.starts_with('\'');
  if (wants_string && !quoted) return Node{std::string(text), {}};
  if (auto node = parse_value(word)) return node;
  if (quoted) return std::nullopt;
  return Node{std::string(text), {}};
}

/// The end of the first element of the text: its comma outside of quotes and brackets, or the end.
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

/// An empty text is a value only where the default is empty too ("none").
bool is_refused_as_empty(const Key& key, const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr || !text->empty()) return false;
  const bool may_be_none = key.presence != Necessity::required && key.default_text.empty();
  return !may_be_none || default_of(key) != Value(std::string());
}

/// The value of a key that is "auto".
const Value found_value = std::vector<double>{std::numeric_limits<double>::infinity()};

/// Checks the key's own rule and keeps the value if it holds.
void keep(const Key& key, Given value, std::map<std::string, Given, std::less<>>& to, DeckValues& given,
          Mistakes& mistakes) {
  if (is_refused_as_empty(key, value.value) && key.rule.choices.empty()) {
    mistakes.add(value.origin, key.path + " must not be empty");
  } else if (const auto broken =
                 key.or_auto && value.value == found_value ? std::nullopt : broken_rule(key, value.value)) {
    const bool has_place = broken->element && *broken->element < value.elements.size();
    const std::string index = broken->element ? cat("[", *broken->element, "]") : "";
    Origin origin = value.origin;
    if (has_place) origin.position = value.elements[*broken->element];
    mistakes.add(origin, key.path + index + " " + broken->text);
  } else {
    to.insert_or_assign(key.path, std::move(value));
    return;
  }
  given.unusable.insert(key.path);
}

/// The value, where true and false, or numbers, are words of a key that has others too.
Node with_words(const Key& key, const Node& node) {
  if (key.or_number && std::holds_alternative<std::int64_t>(node.value))
    return Node{toml_text(std::get<std::int64_t>(node.value)), node.position};
  if (key.or_number && std::holds_alternative<double>(node.value))
    return Node{toml_text(std::get<double>(node.value)), node.position};
  const auto* truth = std::get_if<bool>(&node.value);
  const std::string word = truth != nullptr && *truth ? "true" : "false";
  const bool is_word =
      truth != nullptr && std::ranges::find(key.rule.choices, word) != key.rule.choices.end();
  return is_word ? Node{word, node.position} : node;
}

void collect_key(const Key& key, const Member& member, DeckValues& given, Mistakes& mistakes) {
  const auto* const word = std::get_if<std::string>(&member.node.value);
  const bool found = key.or_auto && word != nullptr && *word == "auto";
  const auto read = found ? std::variant<Value, WrongType>(found_value)
                          : read_value(with_words(key, member.node), default_of(key));
  if (const auto* wrong = std::get_if<WrongType>(&read)) {
    mistakes.add({wrong->position, {}}, cat(key.path, " must be ", type_name(default_of(key)),
                                            key.or_auto ? " or \"auto\"" : "", ", got ", wrong->got));
    given.unusable.insert(key.path);
    return;
  }
  Given value{std::get<Value>(read), {member.node.position, {}}};
  if (const auto* items = std::get_if<std::vector<Node>>(&member.node.value)) {
    for (const Node& item : *items) value.elements.push_back(item.position);
  }
  keep(key, std::move(value), given.deck, given, mistakes);
}

/// The key whose whole path is written in a table ("model.widths = [3]" below [train]); null: there is no
/// such key.
const Key* key_with_tables(const Member& member) {
  std::string path = member.name;
  const auto* inner = std::get_if<Table>(&member.node.value);
  while (inner != nullptr && inner->size() == 1) {
    path += "." + inner->front().name;
    inner = std::get_if<Table>(&inner->front().node.value);
  }
  return path == member.name ? nullptr : find_key(path);
}

void collect_table(const std::string& table, const Table& members, DeckValues& given, Mistakes& mistakes) {
  for (const Member& member : members) {
    const std::string path = table.empty() ? member.name : table + "." + member.name;
    // A name with a dot, in quotes, is never a key's although its path may look like one's.
    const bool is_name = member.name.find('.') == std::string::npos;
    const Key* key = is_name ? find_key(path) : nullptr;
    const auto* inner = std::get_if<Table>(&member.node.value);
    if (key != nullptr) {
      collect_key(*key, member, given, mistakes);
    } else if (is_name && is_table(path)) {
      if (inner != nullptr) {
        collect_table(path, *inner, given, mistakes);
      } else {
        mistakes.add({member.node.position, {}}, cat(path, " must be a table, got ", member.node.type()));
        given.unusable.insert(path);
      }
    } else if (const Key* whole = key_with_tables(member)) {
      mistakes.add({member.position, {}},
                   cat(whole->path, " below [", table, "] means ", table, ".", whole->path, "; write ",
                       whole->name(), " below [", whole->table(), "]"));
      given.unusable.insert(whole->path);
    } else {
      const Suggestion meant = suggest(table, member.name);
      const std::string name = inner == nullptr ? printable(path) + " is not a known key"
                                                : "[" + printable(path) + "] is not a known table";
      mistakes.add({member.position, {}}, name + meant.text);
      if (!meant.path.empty()) given.unusable.insert(meant.path);
    }
  }
}

/// @param place of an override that a file holds; empty: the command line
void collect_override(const std::string& text, const std::string& place, DeckValues& given,
                      Mistakes& mistakes) {
  const Origin origin{{}, text, place};
  const auto equals = text.find('=');
  const std::string path = text.substr(0, equals);
  const Key* key = find_key(path);
  if (equals == std::string::npos) {
    mistakes.add(origin, "an override is written key.path=value");
  } else if (key == nullptr && is_table(path)) {
    mistakes.add(origin, path + " is a table; give one of its keys, as " + path + ".key=value");
  } else if (key == nullptr) {
    const auto dot = path.rfind('.');
    const std::string table = dot == std::string::npos ? "" : path.substr(0, dot);
    const Suggestion meant = suggest(table, dot == std::string::npos ? path : path.substr(dot + 1));
    mistakes.add(origin, printable(path) + " is not a known key" + meant.text);
    if (!meant.path.empty()) given.unusable.insert(meant.path);
  } else {
    const std::string value_text = text.substr(equals + 1);
    const bool found = key->or_auto && (trimmed(value_text) == "auto" || trimmed(value_text) == "\"auto\"");
    const auto value = found ? std::optional(found_value) : value_from_text(value_text, default_of(*key));
    if (value) {
      given.unusable.erase(path);
      keep(*key, {*value, origin}, given.overrides, given, mistakes);
    } else {
      mistakes.add(origin, cat(path, " must be ", type_name(default_of(*key)), ", got ", quoted(value_text),
                               value_text.empty() ? " (an unset variable of the shell?)" : ""));
      given.unusable.insert(path);
    }
  }
}

}  // namespace

const Given* DeckValues::find(std::string_view path) const {
  if (const auto found = overrides.find(path); found != overrides.end()) return &found->second;
  const auto found = deck.find(path);
  return found == deck.end() ? nullptr : &found->second;
}

Origin DeckValues::origin_of(std::string_view path, std::size_t element) const {
  const Given* const value = find(path);
  if (value == nullptr) return {};
  Origin origin = value->origin;
  if (element < value->elements.size()) origin.position = value->elements[element];
  return origin;
}

bool DeckValues::is_unusable(std::string_view path) const {
  if (unusable.contains(path)) return true;
  const auto dot = path.rfind('.');
  return dot != std::string_view::npos && is_unusable(path.substr(0, dot));
}

void collect_deck(const Table& deck, DeckValues& given, Mistakes& mistakes) {
  collect_table("", deck, given, mistakes);
}

void collect_overrides(const std::vector<PlacedOverride>& written, const std::vector<std::string>& overrides,
                       DeckValues& given, Mistakes& mistakes) {
  for (const PlacedOverride& each : written) collect_override(each.text, each.place, given, mistakes);
  for (const std::string& text : overrides) collect_override(text, "", given, mistakes);
}

std::variant<Value, WrongType> read_value(const Node& node, const Value& like) {
  return std::visit([&]<class T>(const T&) { return Reader<T>::read(node); }, like);
}

std::optional<Value> value_from_text(std::string_view text, const Value& like) {
  const bool is_array = like.index() >= 4;  // arrays follow the scalars in Value
  const bool strings =
      std::holds_alternative<std::string>(like) || std::holds_alternative<std::vector<std::string>>(like);
  const std::optional<Node> node = is_array ? parse_array(text, strings) : parse_word(text, strings);
  if (!node) return std::nullopt;
  const auto read = read_value(*node, like);
  const Value* const value = std::get_if<Value>(&read);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

}  // namespace flotilla::config
