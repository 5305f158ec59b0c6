// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/device_loops/device_loops.hpp"
#include "kernels/device_loops/launch.hpp"

namespace flotilla::loops {

/// One thread: the verdict on a step.
struct JudgeStep {
  JudgeSpec spec;
  Late<float> learning_rate;
  double summed = 1.0;
  float* flag = nullptr;  ///< 0: finite; is 0 again afterwards
  Judgement* judgement = nullptr;
  float* tells = nullptr;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t) const {
    const bool taken = *flag == 0.0F;
    *flag = 0.0F;
    Judgement next = *judgement;
    if (taken) ++next.steps;
    next.update = {
        .learning_rate = learning_rate.get(),
        .gradient_scale = static_cast<float>(1.0 / (summed * static_cast<double>(next.state.scale))),
        .correction1 = correction(spec.beta1, next.steps),
        .correction2 = correction(spec.beta2, next.steps),
        .taken = taken ? 1.0F : 0.0F};
    follow(spec.rule, next.state, taken);
    next.backward_scale = next.state.scale / spec.loss_divisor;
    *judgement = next;
    tells[told_scale] = next.state.scale;
    tells[told_good] = static_cast<float>(next.state.good);
    tells[told_in_a_row] = static_cast<float>(next.state.in_a_row);
    tells[told_skipped] = static_cast<float>(next.state.skipped);
  }

  KOKKOS_INLINE_FUNCTION static float correction(float beta, std::int64_t steps) {
    if (steps == 0) return 1.0F;
    return static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta), static_cast<double>(steps))));
  }
};

struct RestoreValues {
  const Judgement* judgement = nullptr;
  const float* before = nullptr;
  float* values = nullptr;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    if (judgement->update.taken == 0.0F) values[i] = before[i];
  }
};

}  // namespace flotilla::loops
