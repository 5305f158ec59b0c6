// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mpi/core/slices.hpp"
#include "mpi/core/wire.hpp"

namespace flotilla::mpi {

/// A step of one rank's part in an all-reduce. Slices are of the array that is summed.
struct SumStep {
  struct Part {
    int rank = 0;  ///< The other one
    SliceBounds slice;
  };
  std::vector<Part> sends{};
  std::vector<Part> receives{};
  /// Not empty: what is received is of this slice, and is added to it. Otherwise it replaces the slices that
  /// it is of.
  SliceBounds sum{};
  SliceBounds rounded{};      ///< Rounded to the wire here too, first
  Wire wire = Wire::float32;  ///< Of all messages
};

/// The steps of `rank` among `ranks` in an all-reduce of `count` values, which adds in the tree of
/// sum_arrays.hpp: reduce-scatter by fours of neighbours, then by fours of those, then the way back
/// (recursive halving and doubling: Thakur, Rabenseifner & Gropp 2005). Of a number of ranks that is no power
/// of two the largest powers of two do that by themselves, each passes its sums on to the one before it, as
/// the tree has it, and the first one sends the result to the others. Up to four ranks exchange their slices
/// at once. A rank exchanges with at most 3 ⌈log₄ ranks⌉ + 25 others. With a half wire a partial sum is
/// rounded once for each step in which it travels, except in those before which all that is added is of one
/// of several `hosts`; the result is rounded once more. That is at most ⌈log₂ ranks⌉ + 1 roundings of each
/// value, ⌈log₄ ranks⌉ + 1 where the number of ranks is a power of two: by 1,024 ranks x the error is
/// below 6.1 u Σ|x|, u = 2⁻¹¹ for float16 and 2⁻⁸ for bfloat16. Fours add in rank order then. @param hosts by
/// rank; empty: one
std::vector<SumStep> sum_steps(int ranks, int rank, std::size_t count, Wire wire, std::span<const int> hosts);

/// Reduce-scatter and all-gather, a step each, in which every rank sends each slice straight to the rank that
/// owns it, and each owner its slice to all: for groups of few ranks. The first `owners` ranks own slices.
std::vector<SumStep> direct_steps(int ranks, int rank, int owners, std::size_t count);

}  // namespace flotilla::mpi
