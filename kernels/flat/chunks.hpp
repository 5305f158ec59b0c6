// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/flat_math.hpp"

namespace flotilla::flat {

/// Values in a chunk: 64 KiB. Fixed, so that sums of chunks do not depend on the number of threads.
inline constexpr std::int64_t chunk_values = 16384;

inline std::int64_t chunks_of(std::int64_t values) {
  return (values + chunk_values - 1) / chunk_values;
}

/// Whether `next` can be processed together with `range`: equal constants, and between them at most the
/// padding of one slice, which is zero and stays zero. Slices start at multiples of 16 values, so that an
/// excluded slice makes a gap of at least 16.
inline bool continues(const FlatRange& range, const FlatRange& next) {
  const std::int64_t gap = next.offset - (range.offset + range.count);
  return gap >= 0 && gap < 16 && (gap == 0 || next.offset % 16 == 0) &&
         next.weight_decay == range.weight_decay && next.rate_factor == range.rate_factor;
}

/// Merges ranges[index], ranges[index + 1], … while each continues the one before; advances `index` past
/// them.
inline FlatRange merged(std::span<const FlatRange> ranges, std::size_t& index) {
  FlatRange range = ranges[index++];
  while (index < ranges.size() && continues(range, ranges[index])) {
    range.count = ranges[index].offset + ranges[index].count - range.offset;
    ++index;
  }
  return range;
}

/// Chunks that the merged ranges are cut into.
inline std::int64_t count_chunks(std::span<const FlatRange> ranges) {
  std::int64_t chunks = 0;
  for (std::size_t index = 0; index < ranges.size();) chunks += chunks_of(merged(ranges, index).count);
  return chunks;
}

/// Calls body(begin, end, range) for the chunks `first` … `last` − 1 of all.
template <class Body>
void walk_chunks(std::span<const FlatRange> ranges, std::int64_t first, std::int64_t last, const Body& body) {
  std::int64_t before = 0;  // chunks of the ranges already passed
  for (std::size_t index = 0; index < ranges.size() && before < last;) {
    const FlatRange range = merged(ranges, index);
    const std::int64_t chunks = chunks_of(range.count);
    const std::int64_t from = std::max<std::int64_t>(first - before, 0);
    const std::int64_t to = std::min(last - before, chunks);
    for (std::int64_t chunk = from; chunk < to; ++chunk) {
      const std::int64_t begin = chunk * chunk_values;
      const std::int64_t end = std::min(begin + chunk_values, range.count);
      body(range.offset + begin, range.offset + end, range);
    }
    before += chunks;
  }
}

}  // namespace flotilla::flat
