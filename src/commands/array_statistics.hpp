// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "src/data/arrays/array.hpp"

namespace flotilla {

/// Mean and deviation (of the population) of numbers.
struct Moments {
  std::int64_t count = 0;
  double mean = 0.0;
  double squares = 0.0;  ///< Sum of the squared differences to the mean

  double deviation() const;
  /// Makes these the moments of both sets of numbers (Chan, Golub, LeVeque 1979).
  void add(const Moments& other);
};

/// Statistics of the finite numbers of an array, and the number of the others.
struct ArrayStatistics {
  Moments all{};
  std::vector<Moments>
      groups{};  ///< Moments of each feature of (N,F) or channel of (N,C,H,W); empty: there are none
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  std::int64_t non_finite = 0;
};

/// Reads an array in pieces of some MiB, of at most 256 MiB or a row. @param channels_last images lie as
/// (N,H,W,C)  @param beat called with the number of rows that were read
/// @throws UserError for rows of more than 1 GiB, and as Array::read() does
ArrayStatistics statistics_of(const Array& array, bool channels_last,
                              const std::function<void(std::int64_t)>& beat);

}  // namespace flotilla
