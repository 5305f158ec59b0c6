// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "src/commands/inspect.hpp"

namespace flotilla {

/// Describes the columns of a CSV file, plain or compressed by gzip: numbers or texts, missing fields, range;
/// and a deck that trains on it. Delimiter and header are guessed from the first lines, the target, if it is
/// not given, is the column with a usual name of one, otherwise the last. @throws UserError naming file and
/// line
Inspection inspect_table(const std::string& path, const InspectOptions& options);

/// The lines of a deck that follow those that say what is read: [data] to its end, a small network, training.
/// @param outputs numbers to be predicted; 0: labels  @param scaled the inputs by what is found in them
std::string rest_of_deck(const std::string& path, std::int64_t samples, std::int64_t outputs, bool scaled);

}  // namespace flotilla
