// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/network.hpp"
#include "src/checkpoint/checkpoint_writer.hpp"
#include "src/train/model_state.hpp"

namespace flotilla {

/// Provides arrays of a network's layouts to a checkpoint's writer, tensor by tensor: from a copy if they are
/// small, otherwise from the arrays themselves while training does not change them.
class StateSource : public ValueSource {
 public:
  /// Smaller states are copied, because a step may be shorter than the write and training would wait.
  static constexpr std::int64_t copied_below_bytes = std::int64_t{32} << 20;

  /// Makes all memory. `network` must outlive this, and the arrays too where they are not copied.
  StateSource(const Network& network, std::span<const StateArray> arrays);
  /// Sets the arrays of the next save, of the constructor's groups. Copies small ones; others must not change
  /// until the writer has read them.
  void take(std::span<const StateArray> arrays);
  bool copies() const { return copies_; }
  std::int64_t buffer_bytes() const;  ///< The copy, and room for the largest tensor that is not stored plain

  std::span<const CheckpointTensor> tensors() const override { return tensors_; }
  std::span<const float> values(std::size_t tensor) override;

 private:
  /// The position of a tensor.
  struct TensorPosition {
    std::size_t group;
    std::size_t slice;
  };

  const Network& network_;
  std::vector<StateGroup> groups_;
  std::vector<CheckpointTensor> tensors_;
  std::vector<TensorPosition> positions_;  ///< Position of each tensor
  bool copies_ = false;
  std::vector<Storage> copy_;  ///< Copy of each group
  std::vector<float> plain_;
};

}  // namespace flotilla
