// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "src/config/config.hpp"

namespace flotilla::config {

/// The configuration as a deck: every key of its kinds, paths absolute. Loads to the same Config.
std::string resolved_text(const Config& config);

}  // namespace flotilla::config
