// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace flotilla::mpi {

/// The range [begin, end) of an array of floats.
struct SliceBounds {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const SliceBounds&, const SliceBounds&) = default;
};

/// The part of [offset, offset + count) that `rank` of `ranks` sums. The parts are disjoint and complete;
/// their borders are multiples of 16 values, a cache line, so that no line has two writers.
inline SliceBounds slice_of(std::size_t offset, std::size_t count, int rank, int ranks) {
  constexpr std::size_t line = 16;
  const std::size_t first_line = offset / line;
  const std::size_t lines = (offset + count + line - 1) / line - first_line;
  const auto cut = [&](int at) {
    if (at == 0) return offset;
    if (at == ranks) return offset + count;
    const std::size_t share = lines * static_cast<std::size_t>(at) / static_cast<std::size_t>(ranks);
    // With fewer lines than ranks the first line's cut may lie before the data.
    return share == 0 ? offset : (first_line + share) * line;
  };
  return {cut(rank), cut(rank + 1)};
}

}  // namespace flotilla::mpi
