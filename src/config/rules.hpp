// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "kernels/error.hpp"
#include "src/config/collect_keys.hpp"
#include "src/config/config.hpp"
#include "src/config/mistakes.hpp"

namespace flotilla::config {

/// State shared by the rules over several keys: a deck's values, where they were given, and its mistakes so
/// far.
class RuleChecks {
 public:
  RuleChecks(const Config& deck, const DeckValues& values, Mistakes& found)
      : config(deck), given(values), mistakes(found) {}

 protected:
  void exclude(std::string_view one, bool has_one, std::string_view other, bool has_other,
               std::string_view remedy) {
    if (!usable({one, other}) || !has_one || !has_other) return;
    reject({one, other}, one, " and ", other, " exclude each other here: ", remedy);
  }

  bool usable(std::initializer_list<std::string_view> paths) const {
    return std::none_of(paths.begin(), paths.end(),
                        [&](std::string_view path) { return given.is_unusable(path); });
  }

  /// The origin of the first of these keys that was given.
  Origin origin(std::initializer_list<std::string_view> paths) const {
    for (const std::string_view path : paths) {
      if (const Given* value = given.find(path)) return value->origin;
    }
    return {};
  }

  /// A mistake at the place of the first of `paths` that was given.
  void reject(std::initializer_list<std::string_view> paths, const auto&... text) {
    mistakes.add(origin(paths), cat(text...));
  }

  const Config& config;
  const DeckValues& given;
  Mistakes& mistakes;
};

// The rules over several keys, in addition to the keys' tables. A rule is skipped where a mistake about one
// of its keys was found.
void check_run_rules(const Config& config, const DeckValues& given, Mistakes& mistakes);
void check_model_rules(const Config& config, const DeckValues& given, Mistakes& mistakes);
void check_data_rules(const Config& config, const DeckValues& given, Mistakes& mistakes);
void check_image_rules(const Config& config, const DeckValues& given, Mistakes& mistakes);
void check_train_rules(const Config& config, const DeckValues& given, Mistakes& mistakes);
void check_strategy_rules(const Config& config, const DeckValues& given, Mistakes& mistakes);

}  // namespace flotilla::config
