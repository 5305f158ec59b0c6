// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "src/data/arrays/array.hpp"
#include "src/data/arrays/chunked_array.hpp"

namespace flotilla {

/// The arrays of a file, and what kind of file it is.
struct KnownArrays {
  std::string format;  ///< "HDF5", "NumPy .npz", "IDX" …
  std::unique_ptr<ArrayFile> file;
};

/// Opens a file of arrays, whose rows are to be read from the first to the last, of any supported kind,
/// recognised by its contents, or a folder of .npy files. Null where it is no file of arrays: a checkpoint,
/// which is HDF5 too, is none.
/// @throws UserError if it is damaged
KnownArrays open_known_arrays(const std::string& path, std::shared_ptr<ChunkCache> cache);

/// Whether the arrays of an HDF5 file are those of a checkpoint, of a server's part of one or of a file of
/// weights.
bool is_of_model(const ArrayFile& file);

/// The arrays of an HDF5 file, by their paths without a first "/". HDF5 says at opening where the numbers
/// lie; they are read without it: contiguous ones, and chunks that are stored as they are or through shuffle,
/// deflate and fletcher32. Other layouts and filters are refused.
/// @throws UserError if the file is missing, truncated or no HDF5 file
std::unique_ptr<ArrayFile> open_hdf5_arrays(const std::string& path, std::shared_ptr<ChunkCache> cache);

/// The records of a binary file of CIFAR-10 (a label, then 3 × 32 × 32 bytes) or CIFAR-100 (a coarse and a
/// fine label in front) as arrays "images" (N,3,32,32) and "labels", or "coarse_labels" and "fine_labels".
/// The size of the file tells which of the two it is. @throws UserError if it is neither
std::unique_ptr<ArrayFile> open_cifar(const std::string& path);

}  // namespace flotilla
