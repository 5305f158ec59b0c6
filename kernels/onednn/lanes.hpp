// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/onednn/image_layout.hpp"
#include "kernels/threads.hpp"

/// How own passes walk image tensors: unit after unit, a unit being one block of lanes of one image.
namespace flotilla {

template <int N>
struct LaneCount {
  static constexpr int value = N;
};

/// Calls body with the number of lanes as a type, so that its loops are compiled for it.
template <class Body>
void with_lanes(const ImageLayout& layout, const Body& body) {
  switch (layout.lanes) {
    case 16: return body(LaneCount<16>{});
    case 8: return body(LaneCount<8>{});
    default: return body(LaneCount<1>{});
  }
}

/// Calls body(image, block, offset of the unit's first value) for every unit of `blocks`, units shared among
/// the threads.
template <class Body>
void for_each_unit(int threads, const ImageLayout& layout, BlockRange blocks, const Body& body) {
  const std::int64_t count = blocks.end - blocks.begin;
  const std::int64_t units = layout.images * count;
  const std::int64_t values = layout.pixels * layout.channels;
  const std::int64_t work = units * layout.pixels * layout.lanes;
  in_parts(threads_for(threads, work), units, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t unit = first; unit < last; ++unit) {
      const std::int64_t image = unit / count;
      const std::int64_t block = blocks.begin + unit % count;
      body(image, block, image * values + block * layout.block_stride);
    }
  });
}

template <class Body>
void for_each_unit(int threads, const ImageLayout& layout, const Body& body) {
  for_each_unit(threads, layout, {0, layout.blocks}, body);
}

/// Calls body(i, lane) for the values i (from the unit's first) of pixels begin … end − 1, vectorised, so
/// that no value may depend on another.
template <int L, class Body>
inline void for_each_in_unit(const ImageLayout& layout, std::int64_t begin, std::int64_t end,
                             const Body& body) {
  if constexpr (L == 1) {
#pragma omp simd
    for (std::int64_t p = begin; p < end; ++p) body(p, 0);
  } else {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t at = p * layout.pixel_stride;
#pragma omp simd
      for (int l = 0; l < L; ++l) body(at + l, l);
    }
  }
}

/// As for_each_in_unit, but body may add to what belongs to its lane.
template <int L, class Body>
inline void for_each_sum_in_unit(const ImageLayout& layout, std::int64_t begin, std::int64_t end,
                                 const Body& body) {
  if constexpr (L == 1) {
    for (std::int64_t p = begin; p < end; ++p) body(p, 0);
  } else {
    for_each_in_unit<L>(layout, begin, end, body);
  }
}

/// Pixels of a unit that stay in the first cache.
template <int L>
inline constexpr std::int64_t piece_of = L == 1 ? 2048 : 128;

/// Calls body(begin, end) on the pixels of a unit, in pieces that stay in the first cache.
template <int L, class Body>
inline void for_each_piece(const ImageLayout& layout, const Body& body) {
  for (std::int64_t begin = 0; begin < layout.pixels; begin += piece_of<L>)
    body(begin, std::min(begin + piece_of<L>, layout.pixels));
}

}  // namespace flotilla
