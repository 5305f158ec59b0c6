// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "mpi/core/slices.hpp"

namespace flotilla::mpi {

/// Cuts an array into equal parts, one for each rank of a group, as NCCL's reduce-scatter needs them. Parts
/// are whole cache lines; the remainder follows the last rank's part and is summed by that rank as well.
class EvenSlices {
 public:
  EvenSlices(std::size_t count, int ranks)
      : count_(count), ranks_(static_cast<std::size_t>(ranks)), part_(count / ranks_ / line * line) {}

  std::size_t part() const { return part_; }  ///< Floats of each rank's part; 0: all is remainder
  SliceBounds rest() const { return {part_ * ranks_, count_}; }
  /// The slice that `rank` sums: its part and, for the last one, the remainder.
  SliceBounds of(int rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return {at * part_, at + 1 == ranks_ ? count_ : (at + 1) * part_};
  }
  /// No rank adds more floats of any array of up to this count.
  std::size_t most() const { return part_ + line * ranks_; }

 private:
  static constexpr std::size_t line = 16;

  std::size_t count_;
  std::size_t ranks_;
  std::size_t part_;
};

}  // namespace flotilla::mpi
