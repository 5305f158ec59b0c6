// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"

namespace flotilla {

/// What a parameter is, for exclusions from weight decay.
enum class ParameterKind { weight, bias, batch_norm };

/// A named range of a flat array, in floats. Starts on 64 bytes; what follows up to the next slice is zero.
struct Slice {
  std::string name;  ///< torchvision's names where there are any: "fc.bias"
  Shape shape;       ///< Logical, as in checkpoints
  ParameterKind kind = ParameterKind::weight;
  std::int64_t offset = 0;
  std::int64_t size = 0;  ///< As stored by the device; at least shape.size()
};

/// The layout of a flat array of parameters, gradients or statistics: slices in forward order.
class ArenaLayout {
 public:
  static constexpr std::int64_t alignment = 16;  ///< floats: 64 bytes

  /// Appends a slice and returns its index. `stored_size` 0: shape.size().
  std::size_t add(std::string name, const Shape& shape, ParameterKind kind, std::int64_t stored_size = 0);
  /// Appends a slice of plain values that begins at `offset`, behind all others; not aligned.
  void add_at(std::int64_t offset, std::string name, const Shape& shape, ParameterKind kind);
  void grow_to(std::int64_t size);  ///< Floats in all, at least size().
  const std::vector<Slice>& slices() const { return slices_; }
  const Slice& operator[](std::size_t index) const { return slices_[index]; }
  std::int64_t size() const { return size_; }  ///< Floats in all, padding included.
  std::int64_t values() const;                 ///< Logical values: the number of parameters.

 private:
  std::vector<Slice> slices_;
  std::int64_t size_ = 0;
};

}  // namespace flotilla
