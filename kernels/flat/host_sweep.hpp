// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/error.hpp"
#include "kernels/flat/rules.hpp"
#include "kernels/flat_math.hpp"

namespace flotilla::flat {

/// Sweeps the functor over begin … end − 1. It is copied so that its constants stay in registers: through a
/// reference every store of a float might change them.
template <class Functor>
void sweep(const Functor& functor, std::int64_t begin, std::int64_t end) {
  const Functor own = functor;
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) own(i);
}

/// The constants of Adam's moments at `step` = 1, 2, …; where they lie is left open.
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

/// Fills in the constants that all rules share, of a range with this rate and weight decay.
inline void set_constants(Common& common, float gradient_scale, float rate, Decay decay, float weight_decay) {
  common.gradient_scale = gradient_scale;
  common.rate = rate;
  common.coupled = decay == Decay::coupled ? weight_decay : 0.0F;
  common.keep = decay == Decay::coupled ? 1.0F : 1.0F - rate * weight_decay;
}

}  // namespace flotilla::flat
