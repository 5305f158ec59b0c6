// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/layers/loss.hpp"

namespace flotilla {

/// The loss of an output y of a network and its target t, a number. Names, formulas and slopes are
/// those of PyTorch 2 with reduction = "mean": a row's loss is the mean over its outputs.
struct OutputLoss {
  enum class Kind {
    mse,    ///< (y − t)²: torch.nn.MSELoss
    mae,    ///< |y − t|: torch.nn.L1Loss
    huber,  ///< (y − t)² / 2 up to |y − t| = δ, then δ (|y − t| − δ / 2): torch.nn.HuberLoss
    /// −t ln p − (1 − t) ln(1 − p), p = 1 / (1 + exp(−y)), as max(y, 0) − y t + ln(1 + exp(−|y|)), which no y
    /// overflows: torch.nn.BCEWithLogitsLoss
    binary,
  };
  Kind kind = Kind::mse;
  float delta = 1.0F;  ///< δ of huber, positive
  friend bool operator==(const OutputLoss&, const OutputLoss&) = default;
};

struct OutputLossSpec {
  std::int64_t batch = 0;
  std::int64_t outputs = 0;
  OutputLoss function{};
  friend bool operator==(const OutputLossSpec&, const OutputLossSpec&) = default;
};

/// The loss of one output. Math has the fastest sigmoid, log1p and exp(x) for x ≤ 0 of a device.
/// constexpr, so that code for devices can call it. NaN in y or t gives NaN.
template <class Math>
constexpr float output_loss(const OutputLoss& f, float y, float t) {
  const float error = y - t;
  const float size = error < 0.0F ? -error : error;
  switch (f.kind) {
    case OutputLoss::Kind::mse: return error * error;
    case OutputLoss::Kind::mae: return size;
    case OutputLoss::Kind::huber:
      return size <= f.delta ? 0.5F * error * error : f.delta * (size - 0.5F * f.delta);
    case OutputLoss::Kind::binary: break;
  }
  return (y > 0.0F ? y : 0.0F) - y * t + Math::log1p(Math::exp(y < 0.0F ? y : -y));
}

/// Its derivative by y; of mae 0 where y = t. NaN in y or t gives NaN.
template <class Math>
constexpr float output_loss_slope(const OutputLoss& f, float y, float t) {
  const float error = y - t;
  switch (f.kind) {
    case OutputLoss::Kind::mse: return 2.0F * error;
    case OutputLoss::Kind::mae: return error > 0.0F ? 1.0F : error < 0.0F ? -1.0F : error;
    case OutputLoss::Kind::huber: return error > f.delta ? f.delta : error < -f.delta ? -f.delta : error;
    case OutputLoss::Kind::binary: break;
  }
  return Math::sigmoid(y) - t;
}

}  // namespace flotilla
