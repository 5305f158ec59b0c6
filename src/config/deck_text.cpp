// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "kernels/error.hpp"
#include "src/config/deck.hpp"
#include "src/config/keys.hpp"
#include "src/config/suggestions.hpp"

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
    (text += i == 0 ? "" : ", ") += value == "true" ? value : config::quoted(value);
  }
  return text + ".";
}

/// "learning_rate = 0.001"; after "# " where the key has no default.
std::string assignment(const Key& key) {
  const bool has_default = key.presence == Necessity::has_default && key.default_text.empty();
  return has_default ? key.name() + " = " + toml_text(default_of(key)) : "# " + key.name() + " =";
}

std::string entry(const Key& key) {
  const std::string rule = rule_text(key.rule);
  std::string facts = cat(type_name(default_of(key)), rule.empty() ? "" : ", ", rule, ".");
  facts[0] = static_cast<char>(facts[0] - 'a' + 'A');
  facts += condition_text(key.condition);
  if (key.presence == Necessity::required) facts += " Must be given.";
  if (!key.default_text.empty()) facts += " Default: " + key.default_text + ".";
  return comment(key.help + ".") + comment(facts) + assignment(key) + "\n";
}

/// The keys that `is_wanted` takes, below the names of their tables. @param each the text of a key
std::string listed(const std::function<bool(const Key&)>& is_wanted,
                   const std::function<std::string(const Key&)>& each, const char* between) {
  std::string text;
  std::string table;
  for (const Key& key : all_keys()) {
    if (!is_wanted(key)) continue;
    if (key.table() != table) {
      table = key.table();
      text += cat(text.empty() ? "" : "\n", "[", table, "]\n");
    } else {
      text += between;
    }
    text += each(key);
  }
  return text;
}

}  // namespace

std::string resolved_text(const Config& config) {
  std::string text(mark_of_resolved);
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
  return "# Every key that a deck may have, with its default. Not a deck to run: no kind knows all of them.\n"
         "# Made from the table of keys: src/config/keys_*.cpp.\n\n" +
         config::listed([](const config::Key&) { return true; }, config::entry, "\n");
}

std::string explained_keys(const std::string& what) {
  if (what.empty())
    return config::listed([](const config::Key&) { return true; },
                          [](const config::Key& key) { return config::assignment(key) + "\n"; }, "");
  const auto is_wanted = [&](const config::Key& key) {
    return key.path == what || key.name() == what || key.path.starts_with(what);
  };
  std::string text = config::listed(is_wanted, config::entry, "\n");
  if (!text.empty()) return text;
  const std::size_t dot = what.rfind('.');
  const std::string table = dot == std::string::npos ? "" : what.substr(0, dot);
  const std::string hint = config::suggest(table, what.substr(dot + 1)).text;
  throw UserError(cat("no key or table of a deck is called ", config::quoted(what),
                      hint.empty() ? "; flotilla keys --all lists all" : hint));
}

}  // namespace flotilla
