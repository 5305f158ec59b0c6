// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/layers/loss.hpp"

namespace flotilla {

/// Softmax and cross entropy with label smoothing s and mixup with a share q of another image (Zhang et al.
/// 2018): target[c] = (1 − s) ((1 − q) [c = label] + q [c = other label]) + s / classes. The gradient of a
/// row's loss is softmax(logits) − target. With class weights, which exclude smoothing and mixup, both are
/// multiplied by that of the label: PyTorch's CrossEntropyLoss(weight), whose mean divides by sum_weights.
struct SoftmaxLossSpec {
  std::int64_t batch = 0;
  std::int64_t classes = 0;
  float label_smoothing = 0.0F;
  std::vector<float> class_weights{};  ///< Positive, one for each class; empty: all are 1
  float weight(std::int32_t label) const {
    return class_weights.empty() ? 1.0F : class_weights[static_cast<std::size_t>(label)];
  }
  friend bool operator==(const SoftmaxLossSpec&, const SoftmaxLossSpec&) = default;
};

}  // namespace flotilla
