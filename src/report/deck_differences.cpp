// SPDX-License-Identifier: Apache-2.0
#include "src/report/deck_differences.hpp"

#include <algorithm>
#include <set>
#include <variant>

#include "src/config/deck_tree.hpp"
#include "src/config/values.hpp"

namespace flotilla::report {

namespace {

std::string text_of(const config::Node& node);

struct NodeText {
  std::string operator()(const config::Node::Unsupported& value) const { return value.text; }
  std::string operator()(const std::vector<config::Node>& array) const {
    std::string text;
    for (const config::Node& element : array) text += (text.empty() ? "" : ", ") + text_of(element);
    return "[" + text + "]";
  }
  std::string operator()(const config::Table& table) const {
    std::string text;
    for (const config::Member& member : table)
      text += (text.empty() ? "" : ", ") + member.name + " = " + text_of(member.node);
    return "{" + text + "}";
  }
  template <class T>
  std::string operator()(const T& value) const {
    return config::toml_text(value);
  }
};

std::string text_of(const config::Node& node) {
  return std::visit(NodeText{}, node.value);
}

void collect(const config::Table& table, const std::string& prefix,
             std::map<std::string, std::string>& values) {
  for (const config::Member& member : table) {
    if (const auto* inner = std::get_if<config::Table>(&member.node.value)) {
      collect(*inner, prefix + member.name + ".", values);
    } else {
      values[prefix + member.name] = text_of(member.node);
    }
  }
}

}  // namespace

std::map<std::string, std::string> deck_values(const std::string& deck) {
  std::map<std::string, std::string> values;
  const auto parsed = config::parse_toml(deck);
  if (const auto* table = std::get_if<config::Table>(&parsed)) collect(*table, "", values);
  return values;
}

std::vector<DeckDifference> deck_differences(const std::vector<std::string>& decks) {
  std::vector<std::map<std::string, std::string>> values;
  std::set<std::string> keys;
  for (const std::string& deck : decks) {
    values.push_back(deck_values(deck));
    for (const auto& [key, value] : values.back()) keys.insert(key);
  }
  keys.erase("run.output");
  std::vector<DeckDifference> differences;
  for (const std::string& key : keys) {
    DeckDifference row{.key = key, .values = {}};
    for (const auto& of_deck : values) {
      const auto found = of_deck.find(key);
      row.values.push_back(found == of_deck.end() ? "" : found->second);
    }
    const auto differs = [&](const std::string& value) { return value != row.values.front(); };
    if (std::ranges::any_of(row.values, differs)) differences.push_back(std::move(row));
  }
  // What only some decks have mostly follows from another key, as the kind of the strategy: it comes last.
  std::ranges::stable_partition(differences, [](const DeckDifference& row) {
    return std::ranges::find(row.values, "") == row.values.end();
  });
  return differences;
}

}  // namespace flotilla::report
