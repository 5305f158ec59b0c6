// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "kernels/error.hpp"
#include "src/checkpoint/file_index.hpp"

namespace flotilla {

/// The file is valid but needs a newer version of the program.
struct NewerSchema : UserError {
  using UserError::UserError;
};

namespace hdf5 {

/// Reads everything but the values, as far as it can be read.
/// @throws UserError if the file can't be opened or is no HDF5 file; NewerSchema; UnreadableFile.
FileIndex read_index(const std::string& path);

/// Reads floating-point values that are not stored as plain float32 (compressed, float64 …), converted. `to`
/// has the shape's size.
void read_converted(const std::string& path, const StoredTensor& tensor, std::span<float> to);

}  // namespace hdf5

}  // namespace flotilla
