// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "src/files/file.hpp"

namespace flotilla {

struct Config;

/// Opens a file of samples for reading; messages about it say what a user can do.
/// @throws UserError if it is missing, unreadable or no regular file
File open_data_file(const std::string& path);

/// The inflated content of a gzip file of samples, in a nameless file in temporary_folder().
/// @throws UserError as GzipReader does and if the disk is full
File inflated_samples(const File& compressed);

/// Says on stderr, as gzip does, that so many bytes behind the data of a file are not read, if there are any.
void warn_of_trailing_bytes(const std::string& path, std::int64_t bytes);

/// Opens the files of samples and lists of images that the deck names, to say of all that cannot be read,
/// with their keys, before the first one is used. Folders and patterns are left to those who list them.
/// @throws UserError if one is missing or unreadable
void check_data_files(const Config& config, bool validation_only);

}  // namespace flotilla
