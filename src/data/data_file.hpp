// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "src/files/file.hpp"

namespace flotilla {

/// Opens a file of samples for reading; messages about it say what a user can do.
/// @throws UserError if it is missing, unreadable or no regular file
File open_data_file(const std::string& path);

}  // namespace flotilla
