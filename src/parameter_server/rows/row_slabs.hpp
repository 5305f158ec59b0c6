// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/error.hpp"
#include "src/parameter_server/rows/pages.hpp"

namespace flotilla {

/// Rows of one size, by number, zero at first, in slabs that never move: (row_floats) each.
class RowSlabs {
 public:
  static constexpr std::size_t slab_bytes = std::size_t{32}
                                            << 20;  ///< At most; less where rows do not fit in

  explicit RowSlabs(std::size_t row_floats) : row_floats_(row_floats) {
    require(row_floats > 0 && row_floats * sizeof(float) <= slab_bytes, "a row of ", row_floats,
            " floats, with its state");
    shift_ = static_cast<int>(std::bit_width(slab_bytes / (row_floats * sizeof(float)))) - 1;
  }

  float* row(std::uint32_t number) const {
    return reinterpret_cast<float*>(slabs_[number >> shift_].data()) +
           (number & ((std::size_t{1} << shift_) - 1)) * row_floats_;
  }
  std::uint32_t size() const { return size_; }  ///< Rows, and the number of the next one
  float* add() {
    if ((size_ >> shift_) == slabs_.size())
      slabs_.emplace_back((std::size_t{1} << shift_) * row_floats_ * sizeof(float));
    return row(size_++);
  }
  std::size_t row_floats() const { return row_floats_; }

 private:
  std::size_t row_floats_;
  int shift_ = 0;  ///< log₂ of the rows in a slab
  std::uint32_t size_ = 0;
  std::vector<Pages> slabs_;
};

}  // namespace flotilla
