// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/sum_arrays.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/error.hpp"

namespace flotilla::mpi {

namespace {

// Floats per block, so that a block of the sum stays in the L1 cache while the arrays are read.
constexpr std::size_t sum_block = 2048;

void sum_two(float* __restrict a, float* __restrict b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    a[i] = sum;
    b[i] = sum;
  }
}

void add(const float* __restrict from, float* __restrict to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

using Arrays = std::span<const float* const>;

constexpr std::size_t levels = 16;
constexpr std::size_t max_arrays = std::size_t{1} << levels;

/// The sum of a block, with room for the right half of each level of the tree.
struct Blocks {
  alignas(64) std::array<float, sum_block*(levels + 1)> values;  // not initialised

  float* sum(Arrays arrays, std::size_t begin, std::size_t count) {
    sum_tree(arrays, begin, count, values.data());
    return values.data();
  }

 private:
  static void sum_tree(Arrays arrays, std::size_t begin, std::size_t count, float* to) {
    if (arrays.size() == 1) {
      std::memcpy(to, arrays[0] + begin, count * sizeof(float));
      return;
    }
    if (arrays.size() == 2) {
      const float* __restrict a = arrays[0] + begin;
      const float* __restrict b = arrays[1] + begin;
      for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
      return;
    }
    const std::size_t left = std::bit_floor(arrays.size() - 1);
    sum_tree(arrays.first(left), begin, count, to);
    if (arrays.size() == left + 1) return add(arrays[left] + begin, to, count);
    sum_tree(arrays.subspan(left), begin, count, to + sum_block);
    add(to + sum_block, to, count);
  }
};

/// f(begin, count) for the blocks of [begin, end).
template <class F>
void for_each_block(std::size_t begin, std::size_t end, F&& f) {
  for (std::size_t at = begin; at < end; at += sum_block) f(at, std::min(sum_block, end - at));
}

void check_number(std::size_t arrays) {
  require(arrays > 0 && arrays <= max_arrays, "a sum over ", arrays, " arrays");
}

}  // namespace

void sum_into_all(std::span<float* const> arrays, std::size_t begin, std::size_t end) {
  check_number(arrays.size());
  if (arrays.size() == 1) return;
  if (arrays.size() == 2) {
    sum_two(arrays[0] + begin, arrays[1] + begin, end - begin);
    return;
  }
  Blocks blocks;
  for_each_block(begin, end, [&](std::size_t at, std::size_t count) {
    const float* sum = blocks.sum(Arrays(arrays.data(), arrays.size()), at, count);
    for (float* array : arrays) std::memcpy(array + at, sum, count * sizeof(float));
  });
}

void sum_to(float* to, std::span<const float* const> arrays, std::size_t count) {
  check_number(arrays.size());
  Blocks blocks;
  for_each_block(0, count, [&](std::size_t at, std::size_t part) {
    std::memcpy(to + at, blocks.sum(arrays, at, part), part * sizeof(float));
  });
}

void sum_into(std::span<float* const> arrays, std::size_t one, std::size_t begin, std::size_t end) {
  check_number(arrays.size());
  if (arrays.size() == 1) return;
  Blocks blocks;
  for_each_block(begin, end, [&](std::size_t at, std::size_t count) {
    std::memcpy(arrays[one] + at, blocks.sum(Arrays(arrays.data(), arrays.size()), at, count),
                count * sizeof(float));
  });
}

void copy_to_others(std::span<float* const> arrays, std::size_t one, std::size_t begin, std::size_t end) {
  for (std::size_t at = begin; at < end; at += sum_block) {
    const std::size_t count = std::min(sum_block, end - at);
    for (std::size_t other = 0; other < arrays.size(); ++other)
      if (other != one) std::memcpy(arrays[other] + at, arrays[one] + at, count * sizeof(float));
  }
}

}  // namespace flotilla::mpi
