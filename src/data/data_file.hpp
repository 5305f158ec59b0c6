// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "src/files/file.hpp"

namespace flotilla {

struct Config;

/// Opens a file of samples for reading; messages about it say what a user can do.
/// @throws UserError if it is missing, unreadable or no regular file
File open_data_file(const std::string& path);

/// Opens the files of samples and lists of images that the deck names, to say of all that cannot be read,
/// with their keys, before the first one is used. Folders and patterns are left to those who list them.
/// @throws UserError if one is missing or unreadable
void check_data_files(const Config& config, bool validation_only);

}  // namespace flotilla
