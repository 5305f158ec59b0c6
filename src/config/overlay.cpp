// SPDX-License-Identifier: Apache-2.0
#include "src/config/overlay.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/keys.hpp"

namespace flotilla::config {
namespace {

/// Whether the key is selected by that selector, or by a key that is.
bool depends_on(const Key& key, std::string_view selector) {
  if (key.condition.selector.empty()) return false;
  return key.condition.selector == selector || depends_on(*find_key(key.condition.selector), selector);
}

/// The deck's keys that the selector's overridden value does not know, but the deck's own value does.
std::vector<std::string> replaced_by(const std::string& selector, const DeckValues& given) {
  DeckValues deck_only;
  deck_only.deck = given.deck;
  const Config before = merged(deck_only);
  const Config after = merged(given);
  std::vector<std::string> replaced;
  for (const Key& key : all_keys()) {
    const bool is_selected = depends_on(key, selector) && given.deck.contains(key.path);
    if (is_selected && is_active(key, before) && !is_active(key, after)) replaced.push_back(key.path);
  }
  // A dropped selector drops its keys as well.
  for (std::size_t i = 0; i < replaced.size(); ++i)
    for (const Key& key : all_keys())
      if (key.condition.selector == replaced[i] && given.deck.contains(key.path) &&
          std::ranges::find(replaced, key.path) == replaced.end())
        replaced.push_back(key.path);
  return replaced;
}

std::string note(const std::vector<std::string>& dropped, const Origin& origin) {
  std::string text =
      cat("left out of the deck, because ", origin.file.empty() ? "the command line" : origin.file, " says ",
          printable(origin.override), ": ");
  for (std::size_t i = 0; i < dropped.size(); ++i) text += (i == 0 ? "" : ", ") + dropped[i];
  return text;
}

std::string needs_text(const Condition& condition, const Config& config) {
  const Key* selector = find_key(condition.selector);
  if (!is_active(*selector, config)) return needs_text(selector->condition, config);
  std::string text = " needs " + condition.selector + " to be ";
  if (condition.values.size() > 1) text += "one of ";
  const Value now = selector->field.read(config);
  const bool is_text = std::holds_alternative<std::string>(now);
  for (std::size_t i = 0; i < condition.values.size(); ++i) {
    const std::string& value = condition.values[i];
    (text += i == 0 ? "" : ", ") += is_text ? config::quoted(value) : value;
  }
  return text + ", it is " + toml_text(now);
}

}  // namespace

std::vector<std::string> drop_what_overrides_replace(DeckValues& given) {
  std::vector<std::string> notes;
  const auto drop = [&](const std::vector<std::string>& paths, const Origin& origin) {
    if (paths.empty()) return;
    notes.push_back(note(paths, origin));
    for (const std::string& path : paths) given.deck.erase(path);
  };
  for (const auto& [path, value] : given.overrides) drop(replaced_by(path, given), value.origin);

  static constexpr std::array<std::pair<std::string_view, std::string_view>, 2> exclusive = {
      {{"train.batch_size", "train.global_batch_size"}, {"train.global_batch_size", "train.batch_size"}}};
  for (const auto& [chosen, other] : exclusive) {
    const auto value = given.overrides.find(chosen);
    if (value == given.overrides.end() || given.overrides.contains(other)) continue;
    if (given.deck.contains(other)) drop({std::string(other)}, value->second.origin);
  }
  return notes;
}

Config merged(const DeckValues& given) {
  Config config;
  // In the order of the table: the strategy is chosen before its keys find a place.
  for (const Key& key : all_keys())
    if (const Given* value = given.find(key.path)) key.field.write(config, value->value);
  return config;
}

void check_presence(const Config& config, const DeckValues& given, Mistakes& mistakes) {
  for (const Key& key : all_keys()) {
    const Condition& condition = key.condition;
    if (!condition.selector.empty() && given.is_unusable(condition.selector)) continue;
    const bool active = is_active(key, config);
    for (const auto* source : {&given.deck, &given.overrides}) {
      const auto value = source->find(key.path);
      if (active || value == source->end()) continue;
      mistakes.add(value->second.origin, key.path + needs_text(condition, config));
    }
    const bool missing = key.presence == Necessity::required && given.find(key.path) == nullptr &&
                         key.field.read(config) == default_of(key);  // else a kind has one of its own
    if (active && missing && !given.is_unusable(key.path)) {
      mistakes.add({}, cat(key.path, " is missing (", type_name(default_of(key)), "): ", key.help));
    }
  }
}

}  // namespace flotilla::config
