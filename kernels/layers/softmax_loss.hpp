// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/layers/loss.hpp"

namespace flotilla {

/// Softmax and cross entropy with label smoothing s and mixup with a share q of another image (Zhang et al.
/// 2018): target[c] = (1 − s) ((1 − q) [c = label] + q [c = other label]) + s / classes. The gradient of a
/// row's loss is softmax(logits) − target.
struct SoftmaxLossSpec {
  std::int64_t batch = 0;
  std::int64_t classes = 0;
  float label_smoothing = 0.0F;
  friend bool operator==(const SoftmaxLossSpec&, const SoftmaxLossSpec&) = default;
};

}  // namespace flotilla
