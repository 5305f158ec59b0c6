// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/image_layout.hpp"
#include "kernels/processor/stores.hpp"
#include "kernels/threads.hpp"

/// Our own passes over image tensors go unit by unit; a unit is one block of lanes of one image.
namespace flotilla {

/// The values of a pixel's lanes, which the compiler keeps in registers as wide as it has.
template <int L>
struct RowOf {
  using Type [[gnu::vector_size(L * sizeof(float))]] = float;
};
template <>
struct RowOf<1> {
  using Type = float;
};
template <int L>
using Row = typename RowOf<L>::Type;

template <int L>
inline Row<L> load(const float* from) {
  Row<L> row;
  std::memcpy(&row, from, sizeof(row));
  return row;
}
template <int L, bool Past = false>
inline void store(Row<L> row, float* to) {
  if constexpr (Past) {
    store_past_cache(row, to);
  } else {
    std::memcpy(to, &row, sizeof(row));
  }
}

/// Partial sums of a row, so that an addition need not wait for the one before.
inline constexpr std::size_t ways = 4;
template <int L>
using RowSums = std::array<Row<L>, ways>;
template <int L>
inline Row<L> total(const RowSums<L>& sums) {
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
template <int L>
inline std::array<float, L> values_of(Row<L> row) {
  std::array<float, L> values;
  std::memcpy(values.data(), &row, sizeof(row));
  return values;
}

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

/// The lanes of a block of bfloat16.
using BlockLanes = std::integral_constant<std::int64_t, 16>;

/// Calls body with a number of lanes as BlockLanes, so that its loops are compiled for that, or as it is.
template <class Body>
void with_constant_lanes(std::int64_t lanes, const Body& body) {
  if (lanes == BlockLanes::value) return body(BlockLanes{});
  body(lanes);
}

/// Room for what a body of with_constant_lanes() keeps of each lane.
template <class Lanes>
inline constexpr std::size_t room_for = max_lanes;
template <>
inline constexpr std::size_t room_for<BlockLanes> = BlockLanes::value;

/// Lanes, and whether a pass writes with non-temporal stores, past the cache.
template <int L, bool Past>
struct Stores {};

/// Calls body with the lanes and the kind of store as types. Output larger than a core's cache is stored past
/// the cache: loading its lines, only to overwrite them, costs as much as reading it. Batch norm forward and
/// backward took 0.81 and 0.91 of the time, a bottleneck block of ResNet-50 with its convolutions 0.985 (Zen
/// 4, one thread, batch 8 and 16). Blocks of lanes start on 64 bytes.
template <class Body>
void with_stores(const ImageLayout& layout, const Body& body) {
  constexpr std::int64_t cache = 1 << 20;  // bytes
  const std::int64_t values = layout.images * layout.channels * layout.pixels;
  const bool past = values * static_cast<std::int64_t>(sizeof(float)) > cache;
  with_lanes(layout, [&]<int L>(LaneCount<L>) {
    if constexpr (L > 1) {
      if (past) return body(Stores<L, true>{});
    }
    body(Stores<L, false>{});
  });
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
    finish_stores();
  });
}

template <class Body>
void for_each_unit(int threads, const ImageLayout& layout, const Body& body) {
  for_each_unit(threads, layout, {0, layout.blocks}, body);
}

/// Calls body(offset of the row) for every row of a unit; no row may depend on another.
template <int L, class Body>
inline void for_each_row(const ImageLayout& layout, const Body& body) {
  const std::int64_t pixels = layout.pixels;
  const std::int64_t stride = layout.pixel_stride;
  if constexpr (L == 1) {
#pragma omp simd
    for (std::int64_t p = 0; p < pixels; ++p) body(p);
  } else {
    for (std::int64_t p = 0; p < pixels; ++p) body(p * stride);
  }
}

/// Calls body(offset of the row, way) for rows begin … end − 1, `way` being the partial sum of the row.
template <class Body>
inline void for_each_row_apart(const ImageLayout& layout, std::int64_t begin, std::int64_t end,
                               const Body& body) {
  const std::int64_t stride = layout.pixel_stride;
  std::int64_t p = begin;
  for (; p + static_cast<std::int64_t>(ways) <= end; p += static_cast<std::int64_t>(ways)) {
    body(p * stride, 0);
    body((p + 1) * stride, 1);
    body((p + 2) * stride, 2);
    body((p + 3) * stride, 3);
  }
  for (std::size_t way = 0; p < end; ++p, ++way) body(p * stride, way);
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
