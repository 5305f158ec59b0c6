// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

/// Provides the values of tensors one tensor at a time, so that the reader needs no memory for all of them.
class ValueSource {
 public:
  virtual ~ValueSource() = default;
  virtual std::span<const CheckpointTensor> tensors() const = 0;  ///< Their paths and shapes.
  /// The plain values of a tensor, valid until the next call.
  virtual std::span<const float> values(std::size_t tensor) = 0;
  /// The stored bytes of a tensor of any Element, valid until the next call.
  virtual std::span<const std::byte> bytes(std::size_t tensor) { return std::as_bytes(values(tensor)); }
};

}  // namespace flotilla
