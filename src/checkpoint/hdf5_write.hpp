// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/checkpoint/file_index.hpp"

namespace flotilla::hdf5 {

/// Bytes for an offset of a file.
struct Piece {
  std::int64_t position = 0;
  std::vector<std::byte> bytes;
};

/// An HDF5 file but for the values of its datasets.
struct FilePlan {
  std::vector<Piece> structure;         ///< Headers, groups, attributes
  std::vector<std::int64_t> positions;  ///< Where each tensor's values go, contiguous and
                                        ///< little-endian; whatever the state and the checksums are
  std::int64_t bytes = 0;               ///< Of the whole file
};

/// Lays out a file with these tensors in this order, their checksums (each must have one) and, if not null,
/// the state. HDF5 writes into memory only, never to the disk: a write that fails, on a full disk for
/// example, leaves the library with a file that it can neither complete nor close.
/// @throws UserError if the file may not become as long as that (ulimit -f).
FilePlan plan_file(std::span<const StoredTensor> tensors, const CheckpointState* state);

}  // namespace flotilla::hdf5
