// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace flotilla::mpi {

/// arrays[r][i] ← Σ_r arrays[r][i] for all r and begin <= i < end, added from the first array to the last.
/// Reads and writes each value once.
void sum_into_all(std::span<float* const> arrays, std::size_t begin, std::size_t end);

/// arrays[one][i] ← Σ_r arrays[r][i] for begin <= i < end, added from the first array to the last.
void sum_into(std::span<float* const> arrays, std::size_t one, std::size_t begin, std::size_t end);

/// arrays[r][i] ← arrays[one][i] for all other r and begin <= i < end.
void copy_to_others(std::span<float* const> arrays, std::size_t one, std::size_t begin, std::size_t end);

}  // namespace flotilla::mpi
