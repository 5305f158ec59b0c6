// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "kernels/error.hpp"
#include "src/config/config.hpp"
#include "src/config/given.hpp"
#include "src/config/mistakes.hpp"

namespace flotilla::config {

/// What the rules over several keys share: a deck's values, where they were given, and its mistakes so far.
class RuleChecks {
 public:
  RuleChecks(const Config& deck, const DeckValues& values, Mistakes& found)
      : config(deck), given(values), mistakes(found) {}

 protected:
  void exclude(std::string_view one, bool has_one, std::string_view other, bool has_other,
               std::string_view remedy) {
    if (!usable({one, other}) || !has_one || !has_other) return;
    mistakes.add(origin({one, other}), cat(one, " and ", other, " exclude each other here: ", remedy));
  }

  bool usable(std::initializer_list<std::string_view> paths) const {
    return std::none_of(paths.begin(), paths.end(),
                        [&](std::string_view path) { return given.is_unusable(path); });
  }

  /// Where the first of these keys that was given at all was written.
  Origin origin(std::initializer_list<std::string_view> paths) const {
    for (const std::string_view path : paths) {
      if (const Given* value = given.find(path)) return value->origin;
    }
    return {};
  }

  const Config& config;
  const DeckValues& given;
  Mistakes& mistakes;
};

/// The rules of strategy, server and roles. A rule is skipped where a mistake about one of its keys was
/// found.
void check_strategy_rules(const Config& config, const DeckValues& given, Mistakes& mistakes);

/// The rules of data.order and of arrays. A rule is skipped where a mistake about one of its keys was found.
void check_array_rules(const Config& config, const DeckValues& given, Mistakes& mistakes);

/// The rules of model.loss: what belongs to classes, to numbers, to labels that are 0 or 1. Skipped where its
/// mistake was found.
void check_loss_rules(const Config& config, const DeckValues& given, Mistakes& mistakes);

}  // namespace flotilla::config
