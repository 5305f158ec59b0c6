// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/file_index.hpp"
#include "src/files/atomic_file.hpp"
#include "src/files/checksum.hpp"

namespace flotilla {

/// Writes a file under a temporary name, renamed when it is complete. The values are written first, each read
/// once, and their checksums, which the rest of the file holds, are computed on the way. Several tensors may
/// be written piece by piece at the same time.
class NewFile {
 public:
  /// Makes the file under a temporary name. @throws UserError.
  NewFile(const std::string& path, std::span<const CheckpointTensor> tensors);

  /// Writes the plain values of a tensor. @throws UserError.
  void write(std::size_t tensor, std::span<const float> values);
  /// The next values of a tensor, little-endian. @throws UserError.
  void append(std::size_t tensor, std::span<const std::byte> values);
  /// Writes everything else, and verifies the file if it has a state. @param state null: an HDF5 file of
  /// datasets only. @param moved called at every progress of the disk. @returns the file's size and checksum.
  /// @throws UserError.
  CheckpointPart complete(
      const CheckpointState* state, const std::function<void()>& moved = [] {});
  /// Renames the complete file, replacing an older one. @throws UserError; if the file has its name then, the
  /// rename may not outlive a crash of the machine.
  void give_name();
  bool has_name() const { return file_.has_name(); }

 private:
  std::vector<StoredTensor> tensors_;
  std::vector<std::int64_t> positions_;
  std::vector<std::int64_t> written_;  ///< Bytes of each tensor
  std::vector<Checksum> sums_;
  AtomicFile file_;
};

/// @throws InternalError for a name that the reader would not find.
void require_readable_names(std::span<const CheckpointTensor> tensors);

/// The name under which `path` is written before it is complete: "step-00000400.h5.tmp-1234-node7".
std::string temporary_name(const std::string& path);

}  // namespace flotilla
