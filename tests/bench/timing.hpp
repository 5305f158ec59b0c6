// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "kernels/device.hpp"

namespace flotilla::bench {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

inline double fastest(const std::vector<double>& times) {
  return *std::min_element(times.begin(), times.end());
}

/// What a program [threads [batch [seconds]]] does with a Step(device, batch): rounds for so long, and
/// prints.
template <class Step>
void take_rounds(int argc, char** argv, long batch) {
  const auto argument = [&](int index, long fallback) {
    return argc > index ? std::atol(argv[index]) : fallback;
  };
  const auto device = make_device({.kind = "cpu", .threads = static_cast<int>(argument(1, 1))});
  Step step(*device, argument(2, batch));
  for (const double end = now() + static_cast<double>(argument(3, 5)); now() < end;) step.round();
  step.print();
}

}  // namespace flotilla::bench
