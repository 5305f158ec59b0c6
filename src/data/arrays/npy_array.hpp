// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/data/arrays/array.hpp"
#include "src/data/arrays/unchanged_file.hpp"

namespace flotilla {

/// An array in NumPy's format .npy, versions 1 to 3, which takes `bytes` bytes of a file from byte `begin`
/// on: a header that describes it as a Python dictionary, then the numbers in C order (numpy.lib.format in
/// NumPy's manual). @param name for messages
/// @throws UserError for a damaged header, Fortran order, numbers of other types, or another length
std::unique_ptr<Array> open_npy(const std::string& name, std::shared_ptr<const UnchangedFile> file,
                                std::int64_t begin, std::int64_t bytes);

}  // namespace flotilla
