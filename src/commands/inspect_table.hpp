// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "src/commands/inspect.hpp"

namespace flotilla {

/// Describes the columns of a CSV file, plain or compressed by gzip: numbers or texts, missing fields, range;
/// and a deck that trains on it. Delimiter and header are guessed from the first lines, the target is the
/// column with a usual name of one, otherwise the last. @throws UserError naming file and line
Inspection inspect_table(const std::string& path, const InspectOptions& options);

}  // namespace flotilla
