// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace flotilla {

enum class StartKind {
  zero,
  uniform,  ///< In [−scale, scale)
  normal    ///< Mean 0, standard deviation `scale`
};

/// The initial values of rows: a function of seed, key and column, independent of the number of servers and
/// of the order in which rows are created. Column j is value j of Random(seed, random_rows, key).
struct RowStart {
  StartKind kind = StartKind::uniform;
  float scale = 0.01F;
  std::uint64_t seed = 0;  ///< Different for each table
};

/// rows[i] ← the `width` initial values of the row of keys[i].
void start_rows(const RowStart& start, std::span<const std::uint64_t> keys, std::span<float* const> rows,
                std::size_t width);

}  // namespace flotilla
