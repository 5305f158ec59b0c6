// SPDX-License-Identifier: Apache-2.0
#include "src/config/keys.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "kernels/error.hpp"
#include "src/config/key_table.hpp"

namespace flotilla::config {
namespace {

/// Choices as readers see them: one of "a", "b".
std::string choices_text(const std::vector<std::string>& choices) {
  std::string text = choices.size() == 1 ? "" : "one of ";
  for (std::size_t i = 0; i < choices.size(); ++i) text += (i == 0 ? "" : ", ") + config::quoted(choices[i]);
  return text;
}

std::string choices_text(const std::vector<std::int64_t>& numbers) {
  std::string text = "one of ";
  for (std::size_t i = 0; i < numbers.size(); ++i) text += cat(i == 0 ? "" : ", ", numbers[i]);
  return text;
}

std::string bound_text(double bound) {
  const bool whole = bound == std::floor(bound) && std::abs(bound) < 1e15;
  return toml_text(whole ? Value(static_cast<std::int64_t>(bound)) : Value(bound));
}

std::string low_text(const Rule& rule) {
  if (!rule.low_itself) return rule.low == 0 ? "positive" : "above " + bound_text(rule.low);
  return "at least " + bound_text(rule.low);
}

std::string high_text(const Rule& rule) {
  return (rule.high_itself ? "at most " : "below ") + bound_text(rule.high);
}

std::string broken_by(const Rule& rule, double value) {
  if (!std::isfinite(value)) return "must be finite";
  if (value < rule.low || (value == rule.low && !rule.low_itself)) return "must be " + low_text(rule);
  if (value > rule.high || (value == rule.high && !rule.high_itself)) return "must be " + high_text(rule);
  // Networks and optimizers compute in float32; for times and sizes such values are a mistake as well.
  auto rounded = static_cast<double>(static_cast<float>(value));
  if (std::abs(rounded) < std::numeric_limits<float>::min()) rounded = 0.0;  // devices take denormals as zero
  constexpr const char* in_float = " also as float32";
  if (!std::isfinite(rounded)) return cat("must be finite", in_float);
  if (rounded == rule.low && !rule.low_itself) return cat("must be ", low_text(rule), in_float);
  if (rounded == rule.high && !rule.high_itself) return cat("must be ", high_text(rule), in_float);
  return {};
}

std::string broken_by(const Rule& rule, std::int64_t value) {
  if (!rule.numbers.empty())
    return std::ranges::count(rule.numbers, value) > 0 ? "" : "must be " + choices_text(rule.numbers);
  return broken_by(rule, static_cast<double>(value));
}

std::string broken_by(const Rule&, bool) {
  return {};
}

std::string broken_by(const Rule& rule, const std::string& value) {
  // They make a mess of terminals.
  if (std::any_of(value.begin(), value.end(), [](char letter) {
        const auto byte = static_cast<unsigned char>(letter);
        return byte < 0x20 || byte == 0x7F;
      })) {
    return "must not hold control characters";
  }
  if (!is_utf8(value)) return "must be UTF-8, which checkpoints and metrics are written in";
  const auto& choices = rule.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return {};
  return "must be " + choices_text(choices);
}

template <class T>
std::optional<BrokenRule> find_broken(const Rule& rule, const T& value) {
  const std::string text = broken_by(rule, value);
  if (text.empty()) return std::nullopt;
  return BrokenRule{cat(text, ", got ", toml_text(value)), {}};
}

template <class T>
std::optional<BrokenRule> find_broken(const Rule& rule, const std::vector<T>& values) {
  if (values.size() < rule.min_elements) {
    return BrokenRule{cat("must have at least ", rule.min_elements, " element, got ", toml_text(values)), {}};
  }
  if (values.size() > rule.max_elements) {
    return BrokenRule{cat("must have at most ", rule.max_elements, " elements, got ", values.size()), {}};
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (auto broken = find_broken(rule, values[i])) {
      broken->element = i;
      return broken;
    }
  }
  return std::nullopt;
}

std::vector<Key> make_table() {
  std::vector<Key> table;
  for (auto* const keys :
       {&run_and_device_keys, &model_keys, &data_keys, &array_keys, &table_keys, &image_keys, &click_keys,
        &data_source_keys, &train_keys, &optimizer_keys, &schedule_keys, &strategy_keys, &local_sgd_keys,
        &server_keys, &checkpoint_and_validation_keys}) {
    for (Key& key : keys()) {
      if (key.rule.choices.empty()) key.rule.choices = key.field.words;
      table.push_back(std::move(key));
    }
  }
  return table;
}

std::string selector_text(const Key& selector, const Config& config) {
  const Value value = selector.field.read(config);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return toml_text(value);
}

/// Whether it is a key of TOML that needs no quotes.
bool is_bare(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '-' || letter == '_';
  });
}

Key own_key(const std::string& kind, const CustomKey& own) {
  const std::string name = kind + "." + own.name;
  const auto read = [name, initial = own.value](const Config& config) {
    const auto given = config.model.own.find(name);
    return given == config.model.own.end() ? initial : given->second;
  };
  return {.path = "model." + name,
          .field = {read, [name](Config& config, const Value& value) { config.model.own[name] = value; }},
          .rule = own.rule,
          .on_resume = must_match,
          .help = own.help,
          .condition = {"model.kind", {kind}}};
}

void check_own(const std::string& kind, const CustomKey& own, const Key& key) {
  if (!is_bare(own.name))
    throw UserError(cat("the model ", quoted(kind), " has a key ", quoted(own.name),
                        ": letters, digits, - and _ make a name"));
  if (find_key(key.path) != nullptr) throw UserError(cat("the key ", key.path, " was added twice"));
  if (const auto broken = broken_rule(key, default_of(key)))
    throw UserError(cat("the default of ", key.path, " ", broken->text));
}

}  // namespace

std::vector<Key>& key_table() {
  static std::vector<Key> keys = make_table();
  return keys;
}

std::span<const Key> all_keys() {
  return key_table();
}

const Key* find_key(std::string_view path) {
  const auto keys = all_keys();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const Key& key) { return key.path == path; });
  return found == keys.end() ? nullptr : &*found;
}

bool is_table(std::string_view path) {
  const auto keys = all_keys();
  return std::any_of(keys.begin(), keys.end(), [&](const Key& key) {
    return key.path.size() > path.size() && key.path.starts_with(path) && key.path[path.size()] == '.';
  });
}

bool is_active(const Key& key, const Config& config) {
  const Condition& condition = key.condition;
  if (condition.selector.empty()) return true;
  const Key* selector = find_key(condition.selector);
  require(selector != nullptr, key.path, " depends on an unknown key ", condition.selector);
  if (!is_active(*selector, config)) return false;
  const auto& values = condition.values;
  return std::find(values.begin(), values.end(), selector_text(*selector, config)) != values.end();
}

Value default_of(const Key& key) {
  return key.field.read({});
}

std::optional<BrokenRule> broken_rule(const Key& key, const Value& value) {
  // Names of files may have any letters: a NUL alone would be cut by the system.
  const auto* const path = key.path_role == PathRole::none ? nullptr : std::get_if<std::string>(&value);
  if (path != nullptr && is_utf8(*path) && path->find('\0') == std::string::npos) return std::nullopt;
  return std::visit([&](const auto& held) { return find_broken(key.rule, held); }, value);
}

std::string rule_text(const Rule& rule) {
  if (!rule.choices.empty()) return choices_text(rule.choices);
  if (!rule.numbers.empty()) return choices_text(rule.numbers);
  const bool has_low = std::isfinite(rule.low);
  // Bounds that only guard against overflow say nothing to a reader.
  const bool has_high = rule.high <= 65536;
  if (has_low && has_high) return low_text(rule) + ", " + high_text(rule);
  if (has_low) return low_text(rule);
  return has_high ? high_text(rule) : "";
}

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
    Key key = own_key(kind, own);
    check_own(kind, own, key);
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
