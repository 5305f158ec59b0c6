// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/config.hpp"
#include "src/config/values.hpp"

namespace flotilla::config {

/// The place of a key's value in Config (key_table.hpp makes it from the member there). A strategy's keys
/// have a place only while the strategy is chosen.
struct Field {
  std::function<Value(const Config&)> read;          ///< The default where it has no place
  std::function<void(Config&, const Value&)> write;  ///< Nothing where it has no place. Of the type of read()
  std::vector<std::string> words = {};               ///< Words of an enum; empty: another type
};

/// The allowed values of a key. Rules of an array hold for each of its elements.
struct Rule {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_itself = true;                  ///< low is allowed
  bool high_itself = true;                 ///< high is allowed
  std::vector<std::string> choices = {};   ///< Empty: any text. Left out for an enum: all its words
  std::vector<std::int64_t> numbers = {};  ///< Empty: any integer within the bounds
  std::size_t min_elements = 0;            ///< Fewest elements of an array
  std::size_t max_elements = 64;
};

/// When a key is valid: while the key `selector` has one of `values`.
struct Condition {
  std::string selector = {};  ///< Empty: always valid
  std::vector<std::string> values = {};
};

enum class Necessity {
  has_default,  ///< The default is used if it is left out
  required,     ///< Must be given wherever its condition holds
  optional,     ///< May be left out, also of the resolved deck
};

enum class PathRole {
  none,
  input,   ///< In a deck relative to the deck's folder, on the command line to the current one
  output,  ///< Relative to the current folder
};

/// Whether a run may resume from a checkpoint whose deck has another value.
enum class OnResume {
  may_change,    ///< Yes; it says what is trained, so that a run with no step left refuses it
  of_machine,    ///< Yes; it says where and how fast the run computes, what it reports and what it keeps
  of_start,      ///< It says where this start begins and writes: no two starts are compared by it
  same_samples,  ///< Names where samples lie: may change if they are the same ones, or as the next
  on_request,    ///< May change if run.resume_with names it
  must_match,
};

/// "data.train" of "data.train.images".
inline std::string table_of(const std::string& path) {
  return path.substr(0, path.rfind('.'));
}

/// One key of a deck, and all facts about it.
struct Key {
  std::string path;  ///< "data.train.images"
  Field field;
  Rule rule = {};
  OnResume on_resume = OnResume::may_change;
  std::string help;
  Condition condition = {};
  Necessity presence = Necessity::has_default;
  PathRole path_role = PathRole::none;
  std::string default_text = {};  ///< Describes a default that is computed: "runs/<name of the deck>"
  bool or_number = false;         ///< A string that may be written as a number: 0 is "0"
  bool or_auto = false;           ///< An array of numbers, or "auto", which is kept as infinity (is_auto())
  bool of_host = false;           ///< Threads and memory of a host: ranks may have different values

  // Additions to an entry of the table, for keys that differ from most.
  Key only_for(Condition kinds) const { return with(&Key::condition, std::move(kinds)); }
  Key must_be_given() const { return with(&Key::presence, Necessity::required); }
  Key may_be_left_out() const { return with(&Key::presence, Necessity::optional); }
  Key input_path() const { return with(&Key::path_role, PathRole::input); }
  Key output_path() const { return with(&Key::path_role, PathRole::output); }
  Key may_differ_between_hosts() const { return with(&Key::of_host, true); }
  Key or_a_number() const { return with(&Key::or_number, true); }
  Key or_found_in_data() const { return with(&Key::or_auto, true); }
  Key with_default(std::string text) const { return with(&Key::default_text, std::move(text)); }

  std::string table() const { return table_of(path); }
  std::string name() const { return path.substr(path.rfind('.') + 1); }

 private:
  template <class T>
  Key with(T Key::*fact, T value) const {
    Key key = *this;
    key.*fact = std::move(value);
    return key;
  }
};

/// Every key, in the order of inputs/reference.toml; a selector precedes the keys it selects.
std::span<const Key> all_keys();

/// The key of that path, or null.
const Key* find_key(std::string_view path);

/// Whether `path` is a table of the deck: "data", "data.train".
bool is_table(std::string_view path);

/// Whether the key is valid for the configuration's kinds.
bool is_active(const Key& key, const Config& config);

Value default_of(const Key& key);

/// A violation of a key's own rule.
struct BrokenRule {
  std::string text;                    ///< "must be positive, got -4"
  std::optional<std::size_t> element;  ///< Index of the element of an array
};
std::optional<BrokenRule> broken_rule(const Key& key, const Value& value);

/// The key's rule for readers: "positive", "one of \"a\", \"b\""; empty if any value is allowed.
std::string rule_text(const Rule& rule);

/// A key of a user's own model. In decks it is in the table [model.<kind>].
struct CustomKey {
  std::string name;  ///< "blocks"
  Value value;       ///< The default; its type is the key's
  std::string help;  ///< One line without a full stop
  Rule rule{};       ///< The allowed values: {.low = 1, .high = 64}
};

/// Registers a kind of model: model.kind accepts it, its keys may be given, and a run resumes only with equal
/// values. To be called before the first deck is read. @throws UserError for a name that is taken or not
/// valid in TOML, or a default that breaks its rule.
void add_model_kind(const std::string& kind, const std::vector<CustomKey>& keys);

/// The value of key `name` of the deck's own model, given or by default.
/// @throws InternalError if the model declared no such key.
Value own_value(const Config& config, const std::string& name);

/// The value of key `name` of the deck's own model as a T: bool, std::int64_t, double, std::string or a
/// vector of one of the last three.
/// @throws InternalError if the model declared no such key.
template <class T>
T own_value(const Config& config, const std::string& name) {
  const Value value = own_value(config, name);
  const T* held = std::get_if<T>(&value);
  require(held != nullptr, "model.", config.model.kind, ".", name, " is ", type_name(value));
  return *held;
}

}  // namespace flotilla::config
