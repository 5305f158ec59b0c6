// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace flotilla::mpi {

// Sums over arrays are added in one binary tree, cut at the largest power of two below the number of arrays:
// those of aligned groups of 2ᵏ arrays, added up the same way, give the same bits.

/// arrays[r][i] ← Σ_r arrays[r][i] for all r and begin <= i < end. Reads and writes each value once.
void sum_into_all(std::span<float* const> arrays, std::size_t begin, std::size_t end);

/// arrays[one][i] ← Σ_r arrays[r][i] for begin <= i < end.
void sum_into(std::span<float* const> arrays, std::size_t one, std::size_t begin, std::size_t end);

/// to[i] ← Σ_r arrays[r][i] for i < count. `to` may be one of the arrays.
void sum_to(float* to, std::span<const float* const> arrays, std::size_t count);

/// arrays[r][i] ← arrays[one][i] for all other r and begin <= i < end.
void copy_to_others(std::span<float* const> arrays, std::size_t one, std::size_t begin, std::size_t end);

}  // namespace flotilla::mpi
