// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/files/file.hpp"

namespace flotilla {

/// A dataset of a checkpoint file.
struct StoredTensor {
  std::string path;  ///< "parameters/fc1.weight"
  Shape shape;
  std::optional<std::uint64_t> checksum;  ///< As stored; files of other programs have none
  /// Offset of its contiguous little-endian values in the file; empty if HDF5 must convert them.
  std::optional<std::int64_t> position;
  std::string problem;  ///< Why it can't be read: "is not a set of floating-point numbers"
  Element element = Element::float32;

  std::int64_t bytes() const;  ///< Bytes of its values
};

/// Whether a dataset is one of a table of rows: "rows/embeddings/keys".
bool is_of_rows(const std::string& path);

/// The content of a file, without values.
struct FileIndex {
  std::string path;
  std::int64_t bytes = 0;
  bool has_state = false;  ///< False for a file of weights that another program wrote
  CheckpointState state;
  std::optional<std::uint64_t> checksum;  ///< Stored checksum of state and tensor list
  std::vector<StoredTensor> tensors;
  bool keeps_order = true;  ///< Parameters and statistics are in the order of writing; otherwise by name
  std::vector<std::string> problems;  ///< Problems other than those of tensors: "has no attribute step"
};

/// The checksum of everything in a checkpoint but the values: state, and path, shape and checksum of every
/// tensor.
std::uint64_t index_checksum(const CheckpointState& state, std::span<const StoredTensor> tensors);

/// The damage of the index itself: the first of its problems, of its tensors' problems, or a checksum that
/// does not match; empty: none.
std::string index_problem(const FileIndex& index);

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
