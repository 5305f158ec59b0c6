// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "src/config/config.hpp"

namespace flotilla {

/// The name in CheckpointState::choices of what the training data had to say.
inline constexpr const char* found_in_data = "data.found";

/// The settings that the deck leaves open and the data have determined, as JSON; empty if there are none.
/// @throws UserError where a checkpoint cannot hold so much
std::string found_text(const Config& config);

/// What was found, for a line of the start report; empty for nothing.
std::string found_line(const DataConfig& data);

/// Puts DataConfig::found in the place of what the deck leaves to the data.
void use_found(Config& config);

/// Puts what found_text() wrote into a configuration. @param choices of a checkpoint; without such a text
/// nothing changes
void take_found(const std::map<std::string, std::string>& choices, Config& config);

}  // namespace flotilla
