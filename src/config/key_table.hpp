// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "src/config/choices.hpp"
#include "src/config/keys.hpp"

namespace flotilla::config {

// The parts of the key table, in its order. A new key is an entry in one of them and a field in Config.
std::vector<Key> run_and_device_keys();
std::vector<Key> model_keys();
std::vector<Key> data_keys();
std::vector<Key> array_keys();
std::vector<Key> table_keys();
std::vector<Key> image_keys();
std::vector<Key> click_keys();
std::vector<Key> data_source_keys();
std::vector<Key> train_keys();
std::vector<Key> optimizer_keys();
std::vector<Key> schedule_keys();
std::vector<Key> strategy_keys();
std::vector<Key> local_sgd_keys();
std::vector<Key> server_keys();
std::vector<Key> checkpoint_and_validation_keys();

/// The whole table, to add the keys of a user's own models to (add_model_kind).
std::vector<Key>& key_table();

// Abbreviations for the entries.
constexpr auto may_change = OnResume::may_change;
constexpr auto of_machine = OnResume::of_machine;
constexpr auto of_start = OnResume::of_start;
constexpr auto must_match = OnResume::must_match;
constexpr auto same_samples = OnResume::same_samples;
constexpr auto on_request = OnResume::on_request;
constexpr double max_seconds = 1e9;          // Its nanoseconds, added to a clock's, fit 2^63
constexpr double max_steps = 1e12;           // Also of samples and epochs: a product with max_count fits 2^63
constexpr double largest_loss_scale = 1e30;  // Its product with a float's gradient is finite
constexpr double max_count = 2147483647;     // Limit of MPI's counts and oneDNN's sizes

/// A member's value as keys have it: words instead of enums, an empty one for an enum that is not given.
template <class T>
Value value_of(const T& held) {
  return held;
}
template <Choice E>
Value value_of(const E& held) {
  return std::string(word(held));
}
template <Choice E>
Value value_of(const std::optional<E>& held) {
  return held ? value_of(*held) : std::string();
}
template <Choice E>
Value value_of(const std::vector<E>& held) {
  std::vector<std::string> words;
  for (const E each : held) words.emplace_back(word(each));
  return words;
}

template <class T>
void assign(T& held, const Value& value) {
  held = std::get<T>(value);
}
template <Choice E>
void assign(E& held, const Value& value) {
  held = choice<E>(std::get<std::string>(value));
}
template <Choice E>
void assign(std::optional<E>& held, const Value& value) {
  held = choice<E>(std::get<std::string>(value));
}
template <Choice E>
void assign(std::vector<E>& held, const Value& value) {
  held.clear();
  for (const std::string& word : std::get<std::vector<std::string>>(value)) held.push_back(choice<E>(word));
}

/// The allowed words of a field of type T; none unless it holds enums.
template <class T>
std::vector<std::string> allowed_words() {
  if constexpr (Choice<T>) {
    return {words_of<T>.begin(), words_of<T>.end()};
  } else if constexpr (requires { typename T::value_type; }) {
    return allowed_words<typename T::value_type>();
  } else {
    return {};
  }
}

template <class Class, class T>
Class class_of(T Class::*);

template <class Part, class Holder>
constexpr bool may_hold = false;
template <class Part, class... Held>
constexpr bool may_hold<Part, std::variant<Held...>> = (std::is_same_v<Part, Held> || ...);

/// Calls `use` with the member that is reached through `members` from a part of Config: `part` itself, or
/// what it holds if it is a variant. A part of another class has no such member.
template <auto member, auto... members>
void visit_member(auto& part, const auto& use) {
  using Class = decltype(class_of(member));
  if constexpr (may_hold<Class, std::remove_cvref_t<decltype(part)>>) {
    if (auto* held = std::get_if<Class>(&part)) visit_member<member, members...>(*held, use);
  } else if constexpr (requires { part.*member; }) {
    if constexpr (sizeof...(members) == 0)
      use(part.*member);
    else
      visit_member<members...>(part.*member, use);
  }
}

/// Calls `use` with the member of `config` that is reached through `members`, if it has a place.
template <auto... members>
void visit_config(auto& config, const auto& use) {
  auto& [run, straggler, device, model, data, train, optimizer, schedule, reduction, strategy, roles,
         checkpoint, validation, resolved_text] = config;
  const auto visit = [&](auto&... parts) { (visit_member<members...>(parts, use), ...); };
  visit(run, straggler, device, model, data, train, optimizer, schedule, reduction, strategy, roles,
        checkpoint, validation);
}

/// A key whose value is the member that is reached through `members` from the part of Config of its class:
/// key<&RunConfig::seed>(…), key<&DataConfig::train, &DataSourceConfig::path>(…). The member's type is the
/// key's type, its initial value the default, the words of its enum the allowed ones.
template <auto... members>
Key key(std::string path, Rule rule, OnResume on_resume, std::string help) {
  constexpr auto last = std::get<sizeof...(members) - 1>(std::tuple(members...));
  const auto initial = decltype(class_of(last)){}.*last;
  const auto read = [initial](const Config& config) {
    Value value = value_of(initial);
    visit_config<members...>(config, [&](const auto& held) { value = value_of(held); });
    return value;
  };
  const auto write = [](Config& config, const Value& value) {
    visit_config<members...>(config, [&](auto& held) { assign(held, value); });
  };
  return {.path = std::move(path),
          .field = {read, write, allowed_words<std::remove_const_t<decltype(initial)>>()},
          .rule = std::move(rule),
          .on_resume = on_resume,
          .help = std::move(help)};
}

inline Condition data_is(std::string kind) {
  return {"data.kind", {std::move(kind)}};
}

/// Kinds of data that have a group of keys.
inline Condition data_has(bool DataKindKeys::*group) {
  return {"data.kind", kinds_with(group)};
}

/// For enums, whose words are the rule, and where all values of the type are allowed.
inline Rule any_value() {
  return {};
}
inline Rule at_least(double low, double high = std::numeric_limits<double>::infinity()) {
  return {.low = low, .high = high};
}
inline Rule positive(double high = std::numeric_limits<double>::infinity()) {
  return {.low = 0, .high = high, .low_itself = false};
}
inline Rule fraction() {
  return {.low = 0, .high = 1, .high_itself = false};
}
inline Rule one_of(std::vector<std::string> choices) {
  return {.choices = std::move(choices)};
}
inline Rule one_of_numbers(std::vector<std::int64_t> numbers) {
  return {.numbers = std::move(numbers)};
}
inline Rule array_of(std::size_t least, std::size_t most, Rule rule) {
  rule.min_elements = least;
  rule.max_elements = most;
  return rule;
}

}  // namespace flotilla::config
