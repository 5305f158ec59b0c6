// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/error.hpp"
#include "kernels/flat/rules.hpp"
#include "kernels/flat_updates.hpp"

/// Argument checks and constants of updates, shared by all devices. All throw InternalError.
namespace flotilla::flat {

inline void check_update(const UpdateInput& in) {
  const std::size_t size = in.parameters.size();
  require(in.gradients.size() == size, in.gradients.size(), " gradients for ", size, " parameters");
  for (const FlatRange& range : in.ranges) {
    require(
        range.offset >= 0 && range.count >= 0 && static_cast<std::size_t>(range.offset + range.count) <= size,
        "range ", range.offset, " + ", range.count, " lies outside ", size, " parameters");
  }
}

/// The address of an optimizer slot.
inline float* slot(const UpdateInput& in, DeviceSpan<float> values) {
  require(values.size() == in.parameters.size(), "a slot of ", values.size(), " values for ",
          in.parameters.size(), " parameters");
  return values.address();
}

/// The constants of Adam's moments at `step` = 1, 2, …; addresses are not set.
inline Moments moments(float beta1, float beta2, float epsilon, std::int64_t step) {
  require(step >= 1, "the first step is 1, got ", step);
  // With zero, padding and parameters without gradient would become 0 / 0.
  require(epsilon > 0.0F, "epsilon must be positive, got ", epsilon);
  const auto correction = [&](double beta) {
    return 1.0 / (1.0 - std::pow(beta, static_cast<double>(step)));
  };
  return {.m = nullptr,
          .v = nullptr,
          .beta1 = beta1,
          .beta2 = beta2,
          .rest1 = 1.0F - beta1,
          .rest2 = 1.0F - beta2,
          .correction1 = static_cast<float>(correction(double{beta1})),
          .correction2 = static_cast<float>(correction(double{beta2})),
          .epsilon = epsilon};
}
inline Moments moments(const UpdateInput& in, DeviceSpan<float> first, DeviceSpan<float> second, float beta1,
                       float beta2, float epsilon, std::int64_t step) {
  Moments result = moments(beta1, beta2, epsilon, step);
  result.m = slot(in, first);
  result.v = slot(in, second);
  return result;
}

}  // namespace flotilla::flat
