// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/data/arrays/array.hpp"
#include "src/files/file.hpp"

namespace flotilla {

/// The header of a .npy file, and the offset of the numbers from its first byte.
struct NpyForm {
  ArrayForm form;
  std::int64_t begin = 0;
  bool texts = false;  ///< Rows are the characters of texts, of 1 byte or, in UTF-32, of 4 bytes
};

/// The longest header that is read, including the bytes in front of it.
inline constexpr std::int64_t max_npy_header = (1 << 16) + 12;

/// Reads the header of an array as open_npy() does. @param file needs to hold the header only
NpyForm npy_form(const std::string& name, const UnchangedFile& file, std::int64_t begin, std::int64_t bytes);

/// An array in NumPy's format .npy, versions 1 to 3, which takes `bytes` bytes of a file from byte `begin`
/// on: a header that describes it as a Python dictionary, then the numbers in C order (numpy.lib.format in
/// NumPy's manual). @param name for messages
/// @throws UserError for a damaged header, Fortran order, numbers of other types, or another length
std::unique_ptr<Array> open_npy(const std::string& name, std::shared_ptr<const UnchangedFile> file,
                                std::int64_t begin, std::int64_t bytes);

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
