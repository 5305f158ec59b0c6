// SPDX-License-Identifier: Apache-2.0
#include "src/config/deck_text.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "src/config/deck.hpp"
#include "src/config/keys.hpp"

namespace flotilla {
namespace config {
namespace {

/// Cuts a help text into comment lines.
std::string comment(const std::string& text) {
  constexpr std::size_t width = 100;
  std::string out = "#";
  std::size_t column = 1;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const auto end = std::min(text.find(' ', begin), text.size());
    const std::size_t length = end - begin;
    if (column + 1 + length > width) {
      out += "\n#";
      column = 1;
    }
    (out += ' ') += text.substr(begin, length);
    column += 1 + length;
    begin = end + 1;
  }
  return out + "\n";
}

std::string condition_text(const Condition& condition) {
  if (condition.selector.empty()) return "";
  std::string text = " Only for " + condition.selector + " = ";
  for (std::size_t i = 0; i < condition.values.size(); ++i) {
    const std::string& value = condition.values[i];
    (text += i == 0 ? "" : ", ") += value == "true" ? value : quoted(value);
  }
  return text + ".";
}

std::string entry(const Key& key) {
  const std::string rule = rule_text(key.rule);
  std::string facts = cat(type_name(default_of(key)), rule.empty() ? "" : ", ", rule, ".");
  facts[0] = static_cast<char>(facts[0] - 'a' + 'A');
  facts += condition_text(key.condition);
  if (key.presence == Necessity::required) facts += " Must be given.";
  if (!key.default_text.empty()) facts += " Default: " + key.default_text + ".";
  const bool has_default = key.presence == Necessity::has_default && key.default_text.empty();
  const std::string line =
      has_default ? key.name() + " = " + toml_text(default_of(key)) : "# " + key.name() + " =";
  return comment(key.help + ".") + comment(facts) + line + "\n";
}

}  // namespace

std::string resolved_text(const Config& config) {
  std::string text;
  std::string table;
  for (const Key& key : all_keys()) {
    const Value value = key.field.read(config);
    const bool left_out = key.presence == Necessity::optional && value == default_of(key);
    if (left_out || !is_active(key, config)) continue;
    if (key.table() != table) {
      text += (table.empty() ? "[" : "\n[") + key.table() + "]\n";
      table = key.table();
    }
    text += key.name() + " = " + toml_text(value) + "\n";
  }
  return text;
}

}  // namespace config

std::string reference_deck() {
  std::string text =
      "# Every key that a deck may have, with its default. Not a deck to run: no kind knows all of them.\n"
      "# Made from the table of keys: src/config/keys_*.cpp.\n";
  std::string table;
  for (const config::Key& key : config::all_keys()) {
    if (key.table() != table) {
      table = key.table();
      text += "\n[" + table + "]\n";
    } else {
      text += "\n";
    }
    text += config::entry(key);
  }
  return text;
}

}  // namespace flotilla
