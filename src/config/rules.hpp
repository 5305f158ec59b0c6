// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/config/config.hpp"
#include "src/config/given.hpp"
#include "src/config/mistakes.hpp"

namespace flotilla::config {

/// The rules over several keys. A rule is skipped where a mistake about one of its keys was found.
void check_rules_over_several_keys(const Config& config, const DeckValues& given, Mistakes& mistakes);

}  // namespace flotilla::config
