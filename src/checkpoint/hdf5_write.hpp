// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/checkpoint/file_index.hpp"

namespace flotilla::hdf5 {

/// Bytes that belong at a place of a file.
struct Piece {
  std::int64_t position = 0;
  std::vector<std::byte> bytes;
};

/// An HDF5 file but for the values of its datasets.
struct FilePlan {
  std::vector<Piece> structure;  ///< Headers, groups, attributes
  std::vector<std::int64_t>
      positions;           ///< Where each tensor's values go, as contiguous little-endian float32
  std::int64_t bytes = 0;  ///< Of the whole file
};

/// Lays out a file with these tensors in this order, their checksums (each must have one) and, if not null,
/// the state. HDF5 makes the empty file at `path`, but writes into memory only: after a write that fails, of
/// a full disk say, it would keep the file open for ever and try again at exit.
/// @throws UserError if this process may not write files as long as that (ulimit -f).
FilePlan plan_file(const std::string& path, std::span<const StoredTensor> tensors,
                   const CheckpointState* state);

}  // namespace flotilla::hdf5
