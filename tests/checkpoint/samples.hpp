// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_writer.hpp"
#include "tests/support/messages.hpp"

namespace flotilla {

/// A small checkpoint with tensors of rank 0 to 4 in all groups; values depend on `step`.
Snapshot sample_snapshot(std::int64_t step);

/// The values of a snapshot, as a writer takes them.
class SnapshotSource : public ValueSource {
 public:
  explicit SnapshotSource(Snapshot snapshot) : snapshot_(std::move(snapshot)) {}
  std::span<const CheckpointTensor> tensors() const override { return snapshot_.tensors; }
  std::span<const float> values(std::size_t tensor) override {
    return snapshot_.of(snapshot_.tensors[tensor]);
  }

 private:
  Snapshot snapshot_;
};

/// A save of the snapshot, without parts.
Save save_of(const Snapshot& snapshot);

/// `snapshot` with another tensor at its end.
void add_tensor(Snapshot& snapshot, const std::string& path, const Shape& shape, float value);

std::vector<std::byte> bytes_of(const std::string& path);
void put_bytes(const std::string& path, const std::vector<std::byte>& bytes);
void put_byte(const std::string& path, std::size_t position, std::byte value);

/// Whether everything in two snapshots is equal, values bit for bit.
bool equal(const Snapshot& a, const Snapshot& b);

using test::error_of;
using test::mentions;

}  // namespace flotilla
