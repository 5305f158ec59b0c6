// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/packed_weight.hpp"

#include <algorithm>

#include "kernels/onednn/descriptors.hpp"
#include "kernels/threads.hpp"

namespace flotilla {

namespace {

/// The values of rows r and r + 1 in one column, as they lie in memory.
std::uint32_t pair_of(float first, float second) {
  return half::bfloat16_above(first) >> 16 | (half::bfloat16_above(second) & 0xFFFF0000U);
}

/// One pair of rows of a block; `second` is null behind the last row.
void pack_pair(std::int64_t columns, std::int64_t block_columns, const float* first, const float* second,
               std::uint32_t* to) {
  if (second == nullptr) {
    for (std::int64_t c = 0; c < columns; ++c) to[c] = pair_of(first[c], 0.0F);
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) to[c] = pair_of(first[c], second[c]);
  }
  std::fill(to + columns, to + block_columns, 0U);
}

}  // namespace

std::optional<PackedWeight> packed_weight(const dnnl::memory::desc& matrix) {
  const descriptors::Blocking blocking = descriptors::blocking_of(matrix);
  if (blocking.axes != dnnl::memory::dims{0, 1, 0} || blocking.blocks[2] != 2) return std::nullopt;
  const dnnl::memory::dims extents = descriptors::extents_of(matrix);
  return PackedWeight{.rows = extents[0],
                      .columns = extents[1],
                      .block_rows = 2 * blocking.blocks[0],
                      .block_columns = blocking.blocks[1],
                      .row_stride = blocking.strides[0],
                      .column_stride = blocking.strides[1],
                      .padded_rows = blocking.padded[0],
                      .padded_columns = blocking.padded[1]};
}

void pack(int threads, const PackedWeight& of, const float* from, Bfloat16* to) {
  auto* const pairs = reinterpret_cast<std::uint32_t*>(to);
  in_parts(threads_for(threads, of.rows * of.columns), of.padded_rows / 2,
           [&](std::int64_t first, std::int64_t last) {
             for (std::int64_t pair = first; pair < last; ++pair) {
               const std::int64_t row = 2 * pair;
               const float* const values = from + row * of.columns;
               std::uint32_t* const block = pairs + (row / of.block_rows * of.row_stride) / 2 +
                                            row % of.block_rows / 2 * of.block_columns;
               for (std::int64_t c = 0; c < of.padded_columns; c += of.block_columns) {
                 std::uint32_t* const out = block + c / of.block_columns * of.column_stride / 2;
                 // Behind the last row, and columns of padding.
                 const std::int64_t here =
                     row < of.rows ? std::clamp<std::int64_t>(of.columns - c, 0, of.block_columns) : 0;
                 pack_pair(here, of.block_columns, values + c,
                           row + 1 < of.rows ? values + of.columns + c : nullptr, out);
               }
             }
           });
}

}  // namespace flotilla
