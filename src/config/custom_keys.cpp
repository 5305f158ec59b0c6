// SPDX-License-Identifier: Apache-2.0
#include "src/config/custom_keys.hpp"

#include <algorithm>
#include <cctype>

#include "src/config/key_table.hpp"

namespace flotilla::config {
namespace {

/// Whether it is a key of TOML that needs no quotes.
bool is_bare(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '-' || letter == '_';
  });
}

Key make_key(const std::string& kind, const CustomKey& own) {
  const std::string name = kind + "." + own.name;
  const auto read = [name, initial = own.value](const Config& config) {
    const auto given = config.model.own.find(name);
    return given == config.model.own.end() ? initial : given->second;
  };
  return {.path = "model." + name,
          .field = {read, [name](Config& config, const Value& value) { config.model.own[name] = value; }},
          .rule = own.rule,
          .help = own.help,
          .on_resume = must_match,
          .condition = {"model.kind", {kind}}};
}

void check(const std::string& kind, const CustomKey& own, const Key& key) {
  if (!is_bare(own.name))
    throw UserError(cat("the model ", quoted(kind), " has a key ", quoted(own.name),
                        ": letters, digits, - and _ make a name"));
  if (find_key(key.path) != nullptr) throw UserError(cat("the key ", key.path, " was added twice"));
  if (const auto broken = broken_rule(key, default_of(key)))
    throw UserError(cat("the default of ", key.path, " ", broken->text));
}

}  // namespace

void add_model_kind(const std::string& kind, const std::vector<CustomKey>& keys) {
  std::vector<Key>& table = key_table();
  Key& selector = *std::ranges::find(table, "model.kind", &Key::path);
  if (!is_bare(kind) || find_key("model." + kind) != nullptr)
    throw UserError(cat("no model can be called ", quoted(kind),
                        ": letters, digits, - and _ make a name, and no key of [model] may have it"));
  if (std::ranges::count(selector.rule.choices, kind) > 0)
    throw UserError(cat("there is a model ", quoted(kind), " already"));
  selector.rule.choices.push_back(kind);
  std::ranges::find(table, "model.loss", &Key::path)->condition.values.push_back(kind);
  for (const CustomKey& own : keys) {
    Key key = make_key(kind, own);
    check(kind, own, key);
    // Behind [model], before the next table.
    const auto last = std::find_if(table.rbegin(), table.rend(),
                                   [](const Key& other) { return other.path.starts_with("model."); });
    table.insert(last.base(), std::move(key));
  }
}

Value own_value(const Config& config, const std::string& name) {
  const Key* key = find_key("model." + config.model.kind + "." + name);
  require(key != nullptr, "the model \"", config.model.kind, "\" declared no key \"", name, "\"");
  return key->field.read(config);
}

}  // namespace flotilla::config
