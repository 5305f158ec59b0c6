// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/device_scalar.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// The labels of the rows of a batch. Host memory; must not change until Tensors::finish_staging().
struct Targets {
  std::span<const std::int32_t> labels;  ///< One of 0 … classes − 1 for every row.
  std::int64_t valid = 0;  ///< Rows from here on are padding: no loss, no gradient, not counted.
  std::span<const std::int32_t> other_labels =
      {};                    ///< Mixup: the labels of the images mixed in. Empty: none.
  float other_share = 0.0F;  ///< Mixup: their share of the targets, in [0, 1].
};

/// Softmax and cross entropy with label smoothing s and mixup with a share q of another image (Zhang et al.
/// 2018): target[c] = (1 − s) ((1 − q) [c = label] + q [c = other label]) + s / classes.
struct SoftmaxLossSpec {
  std::int64_t batch = 0;
  std::int64_t classes = 0;
  float label_smoothing = 0.0F;
  friend bool operator==(const SoftmaxLossSpec&, const SoftmaxLossSpec&) = default;
};

/// Indices of the sums of SoftmaxLoss, floats in device memory.
enum LossSum : std::size_t { sum_loss = 0, sum_top1 = 1, sum_top5 = 2, sum_samples = 3, loss_sums = 4 };

class SoftmaxLoss {
 public:
  virtual ~SoftmaxLoss() = default;
  /// Adds to sums[loss_sums]: the cross entropies, the rows whose label (not the other one) has the highest
  /// logit, is among the five highest (ties go to the lower class), and the valid rows. logits (N,C).
  virtual void forward(const Tensor& logits, const Targets& targets, DeviceSpan<float> sums) = 0;
  /// dlogits = scale · (softmax(logits) − target), zero in padding rows. Uses intermediate values of forward;
  /// dlogits may be logits.
  virtual void backward(const Tensor& logits, const Targets& targets, DeviceScalar<float> scale,
                        Tensor& dlogits) = 0;
};

}  // namespace flotilla
