// SPDX-License-Identifier: Apache-2.0
#include "src/config/keys.hpp"

#include <algorithm>
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
  // Networks and optimizers compute in float32; of times and sizes such values are no less a mistake.
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
  if (values.size() < rule.least_elements) {
    return BrokenRule{cat("must have at least ", rule.least_elements, " element, got ", toml_text(values)),
                      {}};
  }
  if (values.size() > rule.most_elements) {
    return BrokenRule{cat("must have at most ", rule.most_elements, " elements, got ", values.size()), {}};
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
       {&run_and_device_keys, &model_and_data_keys, &array_keys, &image_keys, &click_keys, &data_source_keys,
        &training_keys, &strategy_keys, &local_sgd_keys, &server_keys, &checkpoint_and_validation_keys}) {
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

}  // namespace flotilla::config
