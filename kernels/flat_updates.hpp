// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/flat_math.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

enum class Decay {
  coupled,    ///< g ← g + λ p before the rule (L2 regularisation)
  decoupled,  ///< p ← p − lr λ p beside the rule (AdamW, Loshchilov & Hutter 2019)
};

/// The numbers of an update that change from step to step.
struct UpdateNumbers {
  float learning_rate = 0.0F;
  float gradient_scale = 1.0F;
  float correction1 = 1.0F;  ///< Adam and LAMB: 1 / (1 − β₁ᵗ)
  float correction2 = 1.0F;  ///< 1 / (1 − β₂ᵗ)
  float taken = 1.0F;        ///< 0: the update changes nothing.
};

/// What every update reads: p are the parameters, g the gradient. The gradient used is gradient_scale · g
/// (1 / workers, and the clipping factor).
struct UpdateInput {
  DeviceSpan<float> parameters;
  DeviceSpan<const float> gradients;
  std::span<const FlatRange> ranges;
  float learning_rate = 0.0F;
  float gradient_scale = 1.0F;
  Decay decay = Decay::coupled;
  /// Not null: device memory from which the update reads these numbers; the fields above and `step` are then
  /// ignored. Devices without graphs are never given it.
  const UpdateNumbers* numbers = nullptr;
};

/// The update rules of optimizers on flat arrays, each one pass. On the CPU and on a GPU they are
/// the functors of flat/rules.hpp; the reference device has plain loops.
class FlatUpdates {
 public:
  virtual ~FlatUpdates() = default;
  /// p ← p − lr g.
  virtual void sgd(const UpdateInput& in) = 0;
  /// v ← μ v + g;  p ← p − lr v,  or with Nesterov p ← p − lr (g + μ v). No dampening.
  virtual void momentum(const UpdateInput& in, DeviceSpan<float> velocity, float mu, bool nesterov) = 0;
  /// LARS' form of momentum: v ← μ v + lr g;  p ← p − v, where lr includes rate_factor (You et al. 2017).
  virtual void lars(const UpdateInput& in, DeviceSpan<float> velocity, float mu) = 0;
  /// m ← β₁ m + (1 − β₁) g;  v ← β₂ v + (1 − β₂) g²;  p ← p − lr m̂ / (√v̂ + ε), m̂ and v̂ corrected for bias at
  /// `step` = 1, 2, … (Kingma & Ba 2015).
  virtual void adam(const UpdateInput& in, DeviceSpan<float> first, DeviceSpan<float> second, float beta1,
                    float beta2, float epsilon, std::int64_t step) = 0;
  /// First half of LAMB: moments as in adam, direction ← m̂ / (√v̂ + ε) + λ p (You et al. 2020). The second
  /// half is sgd with gradients = direction, no decay, rate_factor = ‖p‖ / ‖direction‖.
  virtual void lamb_direction(const UpdateInput& in, DeviceSpan<float> first, DeviceSpan<float> second,
                              float beta1, float beta2, float epsilon, std::int64_t step,
                              DeviceSpan<float> direction) = 0;
  /// a ← a + g²;  p ← p − lr g / (√a + ε) (Duchi et al. 2011).
  virtual void adagrad(const UpdateInput& in, DeviceSpan<float> accumulator, float epsilon) = 0;
};

}  // namespace flotilla
