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

/// How a row begins: a function of seed, key and column, so that neither the number of servers nor the order
/// in which rows are first touched matters. Column j is value j of Random(seed, random_rows, key).
struct RowStart {
  StartKind kind = StartKind::uniform;
  float scale = 0.01F;
  std::uint64_t seed = 0;  ///< Another one for each table
};

/// rows[i] ← the `width` values that the row of keys[i] begins with.
void start_rows(const RowStart& start, std::span<const std::uint64_t> keys, std::span<float* const> rows,
                std::size_t width);

}  // namespace flotilla
