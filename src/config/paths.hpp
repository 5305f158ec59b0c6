// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/config/collect_keys.hpp"
#include "src/config/config.hpp"
#include "src/config/mistakes.hpp"

namespace flotilla::config {

/// Makes the paths absolute, by where each of them was written: relative ones begin at the deck's folder
/// (inputs that the deck names) or at the current one. A "~" at the beginning is the value of HOME; $NAME and
/// ${NAME} are those of the environment, in any part of a path, where NAME consists of letters, digits and
/// "_" and begins with no digit; "$$" is a "$". Names that the environment lacks, or for which it has an
/// empty value, become mistakes.
/// @param literal in the deck's own paths these letters stand for themselves
/// @throws UserError if the current folder is unknown, or a path is not UTF-8
void resolve_paths(const std::string& deck_path, bool literal, const DeckValues& given, Config& config,
                   Mistakes& mistakes);

/// N of run.resume = "step-N", a checkpoint in run.output; nothing for another value.
std::optional<std::int64_t> step_to_resume(const std::string& resume);

}  // namespace flotilla::config
