// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla {

/// The middle one of `values`, of an even number the upper of both. @throws InternalError if there are none.
inline double median(std::vector<double> values) {
  require(!values.empty(), "a median needs values");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace flotilla
