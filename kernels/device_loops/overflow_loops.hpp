// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/device_loops/device_loops.hpp"
#include "kernels/device_loops/launch.hpp"

namespace flotilla::loops {

/// One thread: whether a step is taken, and the next loss scale.
struct CheckOverflow {
  OverflowGuardSpec spec;
  DeviceScalar<float> learning_rate;
  double summed = 1.0;
  float* flag = nullptr;  ///< 0: finite; is 0 again afterwards
  ScalerState* state = nullptr;
  float* report = nullptr;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t) const {
    const bool taken = *flag == 0.0F;
    *flag = 0.0F;
    ScalerState next = *state;
    if (taken) ++next.steps;
    next.update = {
        .learning_rate = learning_rate.get(),
        .gradient_scale = static_cast<float>(1.0 / (summed * static_cast<double>(next.state.scale))),
        .correction1 = correction(spec.beta1, next.steps),
        .correction2 = correction(spec.beta2, next.steps),
        .taken = taken ? 1.0F : 0.0F};
    follow(spec.rule, next.state, taken);
    next.backward_scale = next.state.scale / spec.loss_divisor;
    *state = next;
    report[report_scale] = next.state.scale;
    report[report_good] = static_cast<float>(next.state.good);
    report[report_consecutive] = static_cast<float>(next.state.consecutive_overflows);
    report[report_skipped] = static_cast<float>(next.state.skipped);
  }

  KOKKOS_INLINE_FUNCTION static float correction(float beta, std::int64_t steps) {
    if (steps == 0) return 1.0F;
    return static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta), static_cast<double>(steps))));
  }
  friend bool operator==(const CheckOverflow&, const CheckOverflow&) = default;
};

struct RestoreValues {
  const ScalerState* state = nullptr;
  const float* before = nullptr;
  float* values = nullptr;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    if (state->update.taken == 0.0F) values[i] = before[i];
  }
  friend bool operator==(const RestoreValues&, const RestoreValues&) = default;
};

}  // namespace flotilla::loops
