// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/casts.hpp"
#include "kernels/cpu/functions.hpp"
#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/layers/softmax_loss.hpp"
#include "kernels/plan_checks.hpp"
#include "kernels/precision.hpp"
#include "kernels/threads.hpp"

namespace flotilla {

inline float highest_of(std::int64_t classes, const float* x) {
  float highest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : highest)
  for (std::int64_t c = 0; c < classes; ++c) highest = x[c] > highest ? x[c] : highest;
  return highest;
}

/// e = exp(x − highest); returns their sum.
inline float exponentials(std::int64_t classes, const float* x, float highest, float* e) {
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < classes; ++c) {
    const float value = fast_exp_below_0(x[c] - highest);
    e[c] = value;
    sum += value;
  }
  return sum;
}

/// Σ (x − shift).
inline float sum_above(std::int64_t classes, const float* x, float shift) {
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < classes; ++c) sum += x[c] - shift;
  return sum;
}

/// Classes with a higher logit than the label, or an equal one and a lower number. All of them if the label's
/// logit is not a number: such a row is never right.
inline std::int32_t classes_before(std::int64_t classes, const float* x, std::int32_t label) {
  const float own = x[label];
  std::int32_t before = 0;
#pragma omp simd reduction(+ : before)
  for (std::int32_t c = 0; c < label; ++c) before += x[c] < own ? 0 : 1;
#pragma omp simd reduction(+ : before)
  for (std::int32_t c = label + 1; c < static_cast<std::int32_t>(classes); ++c) before += x[c] <= own ? 0 : 1;
  return own == own ? before : std::numeric_limits<std::int32_t>::max();
}

/// d = a · e − b.
inline void scaled_gradient(std::int64_t classes, const float* e, float a, float b, float* d) {
#pragma omp simd
  for (std::int64_t c = 0; c < classes; ++c) d[c] = a * e[c] - b;
}

/// Softmax and cross entropy in one pass over the logits forward, which keeps exp(logit − highest) for the
/// pass backward. Rows are added in order: the bits do not depend on the threads. Logits in bfloat16 are read
/// as floats, and their gradient is rounded once.
class CpuSoftmaxLoss : public Loss {
 public:
  /// @param precision of the logits, float32 or bfloat16
  CpuSoftmaxLoss(int threads, Precision precision, const SoftmaxLossSpec& spec, const HostMemory& memory)
      : threads_(threads), spec_(spec) {
    check_spec(spec);
    exponentials_ = memory.allocate(static_cast<std::size_t>(spec.batch * spec.classes));
    if (is_half(precision)) floats_ = memory.allocate(exponentials_.size());
    rows_.resize(static_cast<std::size_t>(spec.batch));
  }
  void forward(const Tensor& logits, const Targets& targets, DeviceSpan<float> sums) override {
    check_loss(spec_, logits, targets);
    require(sums.size() == loss_sums, "the loss adds to ", loss_sums, " sums, got ", sums.size());
    const std::int64_t classes = spec_.classes;
    const bool halves = floats_.size() > 0;
    if (halves)
      widen(threads_, logits.shape().size(), values_as<Bfloat16>(logits).address(), floats_.span().address());
    const float* const x = halves ? floats_.span().address() : float_values(logits).address();
    float* const e = exponentials_.span().address();
    const double smoothing = double{spec_.label_smoothing};
    in_parts(threads_for(threads_, 4 * targets.valid * classes), targets.valid,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t n = first; n < last; ++n) {
                 const float* const row = x + n * classes;
                 const std::int32_t label = targets.labels[static_cast<std::size_t>(n)];
                 const float highest = highest_of(classes, row);
                 const double sum = double{exponentials(classes, row, highest, e + n * classes)};
                 // Both terms relative to the highest logit: the differences are exact or small.
                 double wanted = double{row[label] - highest};
                 if (targets.other_share > 0.0F) {
                   const std::int32_t other = targets.other_labels[static_cast<std::size_t>(n)];
                   wanted += double{targets.other_share} * double{row[other] - row[label]};
                 }
                 double loss = std::log(sum) - (1.0 - smoothing) * wanted;
                 if (smoothing > 0.0) {
                   loss -=
                       smoothing * double{sum_above(classes, row, highest)} / static_cast<double>(classes);
                 }
                 const float weight = spec_.weight(label);
                 rows_[static_cast<std::size_t>(n)] = {.loss = double{weight} * loss,
                                                       .weight = weight,
                                                       .normaliser = static_cast<float>(1.0 / sum),
                                                       .before = classes_before(classes, row, label)};
               }
             });
    double loss = 0.0;
    double weights = 0.0;
    std::int64_t top1 = 0;
    std::int64_t top5 = 0;
    for (std::size_t n = 0; n < static_cast<std::size_t>(targets.valid); ++n) {
      loss += rows_[n].loss;
      weights += double{rows_[n].weight};
      top1 += rows_[n].before < 1 ? 1 : 0;
      top5 += rows_[n].before < 5 ? 1 : 0;
    }
    float* const out = sums.address();
    out[sum_loss] += static_cast<float>(loss);
    out[sum_top1] += static_cast<float>(top1);
    out[sum_top5] += static_cast<float>(top5);
    out[sum_samples] += static_cast<float>(targets.valid);
    out[sum_weights] += static_cast<float>(weights);
  }
  void backward(const Tensor& logits, const Targets& targets, DeviceScalar<float> given_scale,
                Tensor& dlogits) override {
    check_loss(spec_, logits, targets);
    require(dlogits.shape() == logits.shape(), "the logits' gradient must have their shape");
    const float scale = given_scale.get();
    const std::int64_t classes = spec_.classes;
    const float* const e = exponentials_.span().address();
    const bool halves = floats_.size() > 0;
    float* const d = halves ? floats_.span().address() : float_values(dlogits).address();
    const float everywhere = scale * spec_.label_smoothing / static_cast<float>(classes);
    const float at_labels = scale * (1.0F - spec_.label_smoothing);
    const float at_label = at_labels * (1.0F - targets.other_share);
    const float at_other = at_labels * targets.other_share;
    in_parts(threads_for(threads_, spec_.batch * classes), spec_.batch,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t n = first; n < std::min(last, targets.valid); ++n) {
                 const auto row = static_cast<std::size_t>(n);
                 float* const out = d + n * classes;
                 const float weight = rows_[row].weight;
                 scaled_gradient(classes, e + n * classes, weight * scale * rows_[row].normaliser, everywhere,
                                 out);
                 out[targets.labels[row]] -= weight * at_label;
                 if (targets.other_share > 0.0F) out[targets.other_labels[row]] -= at_other;
               }
               const std::int64_t padding = std::max(first, targets.valid);
               if (padding < last) std::fill(d + padding * classes, d + last * classes, 0.0F);
             });
    if (halves)
      round_to_bfloat16(threads_, dlogits.shape().size(), d, values_as<Bfloat16>(dlogits).address());
  }

 private:
  struct Row {
    double loss = 0.0;
    float weight = 1.0F;
    float normaliser = 1.0F;  // 1 / Σ exp(logit − highest)
    std::int32_t before = 0;  // classes before the label in order of falling logits
  };

  int threads_;
  SoftmaxLossSpec spec_;
  Storage exponentials_;  // (N,C)
  Storage floats_;        // (N,C), of logits or their gradient in bfloat16; empty in float32
  std::vector<Row> rows_;
};

}  // namespace flotilla
