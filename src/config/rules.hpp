// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/config/config.hpp"
#include "src/config/given.hpp"
#include "src/config/mistakes.hpp"

namespace flotilla::config {

/// The rules that look at several keys. A rule is left out where a mistake about one of its keys is told.
void check_rules_over_several_keys(const Config& config, const GivenValues& given, Mistakes& mistakes);

}  // namespace flotilla::config
