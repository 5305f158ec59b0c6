// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "src/config/config.hpp"

namespace flotilla::config {

/// The first line of a resolved deck. The paths of such a deck are literal.
inline constexpr std::string_view mark_of_resolved =
    "# Resolved by Flotilla: in the paths below, ~ and $ stand for themselves.\n";

/// The configuration as a deck: every key of its kinds, paths absolute. Loads to the same Config.
std::string resolved_text(const Config& config);

}  // namespace flotilla::config
