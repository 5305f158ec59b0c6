// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/device_scalar.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// The targets of a batch, in host memory that must not change until Tensors::finish_staging().
struct Targets {
  std::span<const std::int32_t> labels;  ///< SoftmaxLoss: one of 0 … classes − 1 for every row.
  std::int64_t valid = 0;  ///< Rows from here on are padding: no loss, no gradient, not counted.
  std::span<const std::int32_t> other_labels =
      {};                              ///< Mixup: the labels of the images mixed in. Empty: none.
  float other_share = 0.0F;            ///< Mixup: their share of the targets, in [0, 1].
  std::span<const float> values = {};  ///< OutputLoss: a number for each output of every row.
};

/// Indices of the sums of a Loss, floats in device memory.
enum LossSum : std::size_t {
  sum_loss = 0,
  sum_top1 = 1,
  sum_top5 = 2,
  sum_samples = 3,
  sum_weights = 4,
  loss_sums = 5
};

/// Compares the outputs of a network, (N, outputs), with the targets of a batch.
class Loss {
 public:
  virtual ~Loss() = default;
  /// Adds to sums[loss_sums]: the losses of the rows, the valid rows, and their weights, which are 1 unless
  /// the labels' classes have others; of classes also the rows whose label (not the other one) has the
  /// highest logit, and those where it is among the five highest (ties go to the lower class).
  virtual void forward(const Tensor& logits, const Targets& targets, DeviceSpan<float> sums) = 0;
  /// dlogits = scale · the gradient of the sum of the rows' losses, zero in padding rows. Uses intermediate
  /// values of forward; dlogits may be logits.
  virtual void backward(const Tensor& logits, const Targets& targets, DeviceScalar<float> scale,
                        Tensor& dlogits) = 0;
};

}  // namespace flotilla
