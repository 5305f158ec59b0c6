// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/file_index.hpp"

namespace flotilla {

/// A file to read tensor by tensor, each verified when it is read; not the rows of tables. Tensors come group
/// by group (parameters, statistics, optimizer, strategy), within a group as they were written.
class CheckpointFile : public ValueSource {
 public:
  enum class Content {
    everything,  ///< Everything in a checkpoint
    weights      ///< /parameters and /statistics, all finite; of other programs' files too, without state
  };
  /// Verifies everything but the values.
  /// @throws UserError naming the file and what is wrong (no checkpoint, truncated, from a newer schema …).
  CheckpointFile(const std::string& path, Content content);
  CheckpointFile(const CheckpointFile&) = delete;
  CheckpointFile& operator=(const CheckpointFile&) = delete;

  const CheckpointState& state() const { return index_.state; }
  /// The checksum of the state and the list of tensors: CheckpointPart::checksum.
  std::uint64_t checksum() const { return index_.checksum.value_or(0); }
  bool keeps_order() const { return index_.keeps_order; }  ///< False: tensors of a group are sorted by name
  std::span<const CheckpointTensor> tensors() const override { return tensors_; }
  /// @throws UserError naming the tensor whose values are damaged.
  std::span<const float> values(std::size_t tensor) override;
  Snapshot all();  ///< State and all tensors. @throws UserError naming the tensor whose values are damaged.

 private:
  FileIndex index_;
  Content content_;
  ValueReader reader_;
  std::vector<const StoredTensor*> stored_;
  std::vector<CheckpointTensor> tensors_;
  std::vector<float> values_;
};

}  // namespace flotilla
