// SPDX-License-Identifier: Apache-2.0
#include "mpi/sum_arrays.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace flotilla::mpi {

namespace {

// So that a block of the sum stays in the first-level cache while the arrays pass by.
constexpr std::size_t block = 2048;

void sum_two(float* __restrict a, float* __restrict b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    a[i] = sum;
    b[i] = sum;
  }
}

void sum_block(float* __restrict to, std::span<const float* const> arrays, std::size_t begin,
               std::size_t count) {
  std::memcpy(to, arrays[0] + begin, count * sizeof(float));
  for (const float* array : arrays.subspan(1)) {
    const float* __restrict from = array + begin;
    for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
  }
}

}  // namespace

void sum_into_all(std::span<float* const> arrays, std::size_t begin, std::size_t end) {
  if (arrays.size() == 1) return;
  if (arrays.size() == 2) {
    sum_two(arrays[0] + begin, arrays[1] + begin, end - begin);
    return;
  }
  alignas(64) std::array<float, block> sum;
  for (std::size_t at = begin; at < end; at += block) {
    const std::size_t count = std::min(block, end - at);
    sum_block(sum.data(), std::span<const float* const>(arrays.data(), arrays.size()), at, count);
    for (float* array : arrays) std::memcpy(array + at, sum.data(), count * sizeof(float));
  }
}

void sum_into(std::span<float* const> arrays, std::size_t one, std::size_t begin, std::size_t end) {
  if (arrays.size() == 1) return;
  alignas(64) std::array<float, block> sum;
  for (std::size_t at = begin; at < end; at += block) {
    const std::size_t count = std::min(block, end - at);
    sum_block(sum.data(), std::span<const float* const>(arrays.data(), arrays.size()), at, count);
    std::memcpy(arrays[one] + at, sum.data(), count * sizeof(float));
  }
}

void copy_to_others(std::span<float* const> arrays, std::size_t one, std::size_t begin, std::size_t end) {
  for (std::size_t at = begin; at < end; at += block) {
    const std::size_t count = std::min(block, end - at);
    for (std::size_t other = 0; other < arrays.size(); ++other)
      if (other != one) std::memcpy(arrays[other] + at, arrays[one] + at, count * sizeof(float));
  }
}

}  // namespace flotilla::mpi
