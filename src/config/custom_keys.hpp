// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/config.hpp"
#include "src/config/keys.hpp"

namespace flotilla::config {

/// A key of a user's own model. In decks it stands in the table [model.<kind>].
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
