// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/parameter_server/worker/local_rows.hpp"
#include "src/train/state_source.hpp"

namespace flotilla {

/// A worker's part of a checkpoint: its own arrays, and the rows of an embedding table that it trains, which
/// are copied.
class WorkerStateSource : public ValueSource {
 public:
  /// @param rows null: none. All arguments must outlive this.
  WorkerStateSource(const Network& network, std::span<const StateArray> arrays, const LocalRows* rows);
  /// Sets the arrays of the next save, as StateSource::take(), and copies the present rows.
  void take(std::span<const StateArray> arrays);
  bool copies() const { return arrays_.copies(); }

  std::span<const CheckpointTensor> tensors() const override { return tensors_; }
  std::span<const float> values(std::size_t tensor) override;
  std::span<const std::byte> bytes(std::size_t tensor) override;

 private:
  void take_rows();

  StateSource arrays_;
  const LocalRows* rows_;
  std::vector<CheckpointTensor> tensors_;  ///< Tensors of the arrays, then of the rows: keys, values, slots
  std::vector<std::uint64_t> keys_;
  std::vector<std::vector<float>> row_arrays_;
};

/// Restores the rows of a worker's part. @throws UserError naming the file that is of another model
void restore_rows(const std::string& path, LocalRows& rows);

}  // namespace flotilla
