// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "src/data/arrays/array.hpp"
#include "src/data/arrays/chunked_array.hpp"

namespace flotilla {

/// The arrays of an HDF5 file, by their paths without a first "/". HDF5 says at opening where the numbers
/// lie; they are read without it: contiguous ones, and chunks that are stored as they are or through shuffle,
/// deflate and fletcher32. Other layouts and filters are refused.
/// @throws UserError if the file is missing, truncated or no HDF5 file
std::unique_ptr<ArrayFile> open_hdf5_arrays(const std::string& path, std::shared_ptr<ChunkCache> cache);

}  // namespace flotilla
