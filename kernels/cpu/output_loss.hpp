// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/casts.hpp"
#include "kernels/cpu/functions.hpp"
#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/layers/output_loss.hpp"
#include "kernels/plan_checks.hpp"
#include "kernels/precision.hpp"
#include "kernels/threads.hpp"

namespace flotilla {

struct LossMath {
  static constexpr auto sigmoid = fast_sigmoid;
  static constexpr auto exp = fast_exp_below_0;
  static float log1p(float x) { return std::log1p(x); }
};

inline double loss_of_row(const OutputLossSpec& spec, const float* y, const float* t) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t o = 0; o < spec.outputs; ++o)
    sum += static_cast<double>(output_loss<LossMath>(spec.function, y[o], t[o]));
  return sum / static_cast<double>(spec.outputs);
}

/// The losses of outputs that are numbers. Rows are added in order: the bits do not depend on the threads.
/// Outputs in bfloat16 are read as floats, and their gradient is rounded once.
class CpuOutputLoss : public Loss {
 public:
  /// @param precision of the outputs, float32 or bfloat16
  CpuOutputLoss(int threads, Precision precision, const OutputLossSpec& spec, const HostMemory& memory)
      : threads_(threads), spec_(spec) {
    check_spec(spec);
    if (is_half(precision)) floats_ = memory.allocate(static_cast<std::size_t>(spec.batch * spec.outputs));
    rows_.resize(static_cast<std::size_t>(spec.batch));
  }
  void forward(const Tensor& outputs, const Targets& targets, DeviceSpan<float> sums) override {
    check_loss(spec_, outputs, targets);
    require(sums.size() == loss_sums, "the loss adds to ", loss_sums, " sums, got ", sums.size());
    const float* const y = floats_of(outputs);
    const float* const t = targets.values.data();
    in_parts(threads_for(threads_, 4 * targets.valid * spec_.outputs), targets.valid,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t n = first; n < last; ++n)
                 rows_[static_cast<std::size_t>(n)] =
                     loss_of_row(spec_, y + n * spec_.outputs, t + n * spec_.outputs);
             });
    double loss = 0.0;
    for (std::size_t n = 0; n < static_cast<std::size_t>(targets.valid); ++n) loss += rows_[n];
    sums.address()[sum_loss] += static_cast<float>(loss);
    sums.address()[sum_samples] += static_cast<float>(targets.valid);
    sums.address()[sum_weights] += static_cast<float>(targets.valid);
  }
  void backward(const Tensor& outputs, const Targets& targets, DeviceScalar<float> given_scale,
                Tensor& gradient) override {
    check_loss(spec_, outputs, targets);
    require(gradient.shape() == outputs.shape(), "the outputs' gradient must have their shape");
    const bool halves = floats_.size() > 0;
    const float scale = given_scale.get() / static_cast<float>(spec_.outputs);
    const std::int64_t counted = targets.valid * spec_.outputs;
    const std::int64_t size = spec_.batch * spec_.outputs;
    const float* const y = floats_of(outputs);
    const float* const t = targets.values.data();
    float* const d = halves ? floats_.span().address() : float_values(gradient).address();
    in_parts(threads_for(threads_, size), size, [&](std::int64_t first, std::int64_t last) {
      const std::int64_t end = std::min(last, counted);
#pragma omp simd
      for (std::int64_t i = first; i < end; ++i)
        d[i] = scale * output_loss_slope<LossMath>(spec_.function, y[i], t[i]);
      for (std::int64_t i = std::max(first, counted); i < last; ++i) d[i] = 0.0F;
    });
    if (halves) round_to_bfloat16(threads_, size, d, values_as<Bfloat16>(gradient).address());
  }

 private:
  const float* floats_of(const Tensor& outputs) {
    if (floats_.size() == 0) return float_values(outputs).address();
    widen(threads_, outputs.shape().size(), values_as<Bfloat16>(outputs).address(), floats_.span().address());
    return floats_.span().address();
  }

  int threads_;
  OutputLossSpec spec_;
  Storage floats_;  // (N,O), of outputs or their gradient in bfloat16; empty in float32
  std::vector<double> rows_;
};

}  // namespace flotilla
