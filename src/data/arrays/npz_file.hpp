// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/data/arrays/array.hpp"
#include "src/files/file.hpp"

namespace flotilla {

/// The arrays of a file that numpy.savez or savez_compressed has written: a ZIP archive of .npy files, stored
/// or deflated, of any size. A deflated one is inflated once, into a nameless file in temporary_folder().
/// @param inflated DatasetUse::inflated, by "path/member.npy"
/// @param in_order rows are read from the first to the last, if at all: nothing is inflated before, no file
/// is made (make_streamed_array())
/// @throws UserError if the file is missing, truncated or no ZIP archive
std::unique_ptr<ArrayFile> open_npz(const std::string& path,
                                    const std::map<std::string, std::string>& inflated = {},
                                    bool in_order = false);

/// Copies of those deflated arrays of a .npz file that have one of the names, by "path/member.npy".
std::map<std::string, File> inflated_arrays(const std::string& path, const std::vector<std::string>& names);

/// The arrays NAME.npy of a folder, each by its name.
std::unique_ptr<ArrayFile> open_npy_folder(const std::string& path);

/// A single .npy file as an array of its name without ending.
std::unique_ptr<ArrayFile> open_npy_file(const std::string& path);

}  // namespace flotilla
