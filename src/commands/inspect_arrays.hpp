// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "src/commands/inspect.hpp"

namespace flotilla {

/// Shows the arrays of a file of data: shapes, types, how they are stored, mean, deviation, least and largest
/// value, and lines for a deck; of images, tar files, lists and logs what they are and which key reads them.
/// Nothing where the file holds no data, as a checkpoint. @throws UserError if
/// it is damaged
std::optional<Inspection> inspect_arrays(const std::string& path, const InspectOptions& options);

}  // namespace flotilla
