// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <cstdint>
#include <optional>

#include "kernels/bfloat16_values.hpp"

namespace flotilla {

/// The layouts that instructions for bfloat16 read the second operand of a product in: blocks of rows and
/// columns, in a block pairs of rows, in a pair column after column. Value (r,c) lies at
/// r/R·row_stride + c/C·column_stride + (r%R)/2·2C + 2(c%C) + r%2, where R and C are the rows and columns of
/// a block. Padding is zero.
struct PackedWeight {
  std::int64_t rows = 0, columns = 0;                ///< Without padding
  std::int64_t block_rows = 0, block_columns = 0;    ///< R, even, and C
  std::int64_t row_stride = 0, column_stride = 0;    ///< Values from a block to the next
  std::int64_t padded_rows = 0, padded_columns = 0;  ///< Multiples of R and C
};

/// None if the matrix that oneDNN describes lies in another layout.
std::optional<PackedWeight> packed_weight(const dnnl::memory::desc& matrix);

/// Rounds a plain matrix (rows, columns) and brings it into this layout. `to` holds
/// padded_rows · padded_columns values.
void pack(int threads, const PackedWeight& layout, const float* from, Bfloat16* to);

}  // namespace flotilla
