// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace flotilla::mpi {

/// arrays[r][i] ← Σ_r arrays[r][i] for all r and begin <= i < end, added from the first array to the last.
/// Reads and writes each value once.
void sum_into_all(std::span<float* const> arrays, std::size_t begin, std::size_t end);

}  // namespace flotilla::mpi
