// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/checkpoint/file_index.hpp"
#include "src/files/file.hpp"

namespace flotilla {

/// Reads the values of a file's tensors in pieces of 1 MB, so that verifying takes no memory of the model's
/// size.
class ValueReader {
 public:
  explicit ValueReader(const FileIndex& index);  ///< `index` must outlive this. @throws UserError.
  /// Passes the values, which are float32, to `take` in order. @throws UserError naming file and tensor.
  void pieces(const StoredTensor& tensor, const std::function<void(std::span<const float>)>& take);
  /// Fills `to`, which has the shape's size, and returns its checksum.
  std::uint64_t read(const StoredTensor& tensor, std::span<float> to);
  /// The checksum of values of any element type. @param moved called for each piece that was read
  std::uint64_t checksum(
      const StoredTensor& tensor, const std::function<void()>& moved = [] {});

 private:
  const FileIndex& index_;
  File file_;
  std::vector<float> scratch_;
  std::vector<std::byte> bytes_;
};

/// Verifies index and values. @returns the first damage, as the end of a sentence that begins with the file;
/// empty: none. Tensors without a checksum count as good.
/// @param moved called at every progress of the disk. @throws UnreadableFile.
std::string first_damage(
    const FileIndex& index, const std::function<void()>& moved = [] {});

}  // namespace flotilla
