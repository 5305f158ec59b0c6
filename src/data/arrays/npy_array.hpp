// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/data/arrays/array.hpp"
#include "src/data/arrays/unchanged_file.hpp"

namespace flotilla {

/// What the header of a .npy file says, and where the numbers begin behind its first byte.
struct NpyForm {
  ArrayForm form;
  std::int64_t begin = 0;
};

/// The longest header that is read, with what stands in front of it.
inline constexpr std::int64_t most_npy_header = (1 << 16) + 12;

/// Reads the header of an array as open_npy() does. @param file needs to hold the header only
NpyForm npy_form(const std::string& name, const UnchangedFile& file, std::int64_t begin, std::int64_t bytes);

/// An array in NumPy's format .npy, versions 1 to 3, which takes `bytes` bytes of a file from byte `begin`
/// on: a header that describes it as a Python dictionary, then the numbers in C order (numpy.lib.format in
/// NumPy's manual). @param name for messages
/// @throws UserError for a damaged header, Fortran order, numbers of other types, or another length
std::unique_ptr<Array> open_npy(const std::string& name, std::shared_ptr<const UnchangedFile> file,
                                std::int64_t begin, std::int64_t bytes);

}  // namespace flotilla
