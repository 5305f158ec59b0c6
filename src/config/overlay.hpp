// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/config/given.hpp"
#include "src/config/mistakes.hpp"

namespace flotilla::config {

/// Drops the deck's values that conflict with choices of the command line: keys of another kind only, and the
/// other one of batch_size and global_batch_size. Returns a line for each choice that did so.
std::vector<std::string> drop_what_overrides_replace(DeckValues& given);

/// The defaults with the deck's values over them and the command line's over those.
Config merged(const DeckValues& given);

/// Keys that the chosen kinds do not know, and required keys that are missing, become mistakes.
void check_presence(const Config& config, const DeckValues& given, Mistakes& mistakes);

}  // namespace flotilla::config
