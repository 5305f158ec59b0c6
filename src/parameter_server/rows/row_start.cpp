// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/rows/row_start.hpp"

#include <algorithm>

#include "kernels/random.hpp"

namespace flotilla {

void start_rows(const RowStart& start, std::span<const std::uint64_t> keys, std::span<float* const> rows,
                std::size_t width) {
  switch (start.kind) {
    case StartKind::zero:
      for (float* const row : rows) std::fill_n(row, width, 0.0F);
      return;
    case StartKind::uniform:
      fill_streams(start.seed, random_rows, keys, rows, width);
      for (float* const row : rows)
        for (std::size_t i = 0; i < width; ++i) row[i] = start.scale * (2.0F * row[i] - 1.0F);
      return;
    case StartKind::normal:
      for (std::size_t row = 0; row < rows.size(); ++row) {
        Random random(start.seed, random_rows, keys[row]);
        for (std::size_t i = 0; i < width; ++i)
          rows[row][i] = static_cast<float>(static_cast<double>(start.scale) * random.normal());
      }
  }
}

}  // namespace flotilla
