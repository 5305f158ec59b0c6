// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/error.hpp"
#include "kernels/flat/optimizer_formulas.hpp"
#include "kernels/flat_math.hpp"
#include "kernels/precision.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// The numbers of an update that change from step to step.
struct UpdateNumbers {
  float learning_rate = 0.0F;
  float gradient_scale = 1.0F;
  float correction1 = 1.0F;  ///< Adam and LAMB: 1 / (1 − β₁ᵗ)
  float correction2 = 1.0F;  ///< 1 / (1 − β₂ᵗ)
  float taken = 1.0F;        ///< 0: the update changes nothing.
};

/// A second, half-precision copy of the parameters that an update writes, element for element; empty:
/// none.
struct HalfCopy {
  HalfSpan values;
  Precision precision = Precision::float16;  ///< The device's
  friend bool operator==(const HalfCopy&, const HalfCopy&) = default;
};

/// The inputs of every update: the parameters p and the gradient g. The gradient used is gradient_scale · g
/// (1 / workers, and the clipping factor).
struct UpdateInput {
  DeviceSpan<float> parameters;
  DeviceSpan<const float> gradients;
  std::span<const FlatRange> ranges;
  float learning_rate = 0.0F;
  float gradient_scale = 1.0F;
  Decay decay = Decay::coupled;
  std::int64_t step = 1;  ///< 1, 2, …: of Adam's and LAMB's corrections for bias
  /// Not null: device memory from which the update reads these numbers; learning_rate, gradient_scale and
  /// `step` are then ignored. Devices without graphs are never given it.
  const UpdateNumbers* numbers = nullptr;
  HalfCopy halves = {};  ///< Only where DeviceInfo::reads_halves
};

/// The arrays that a rule keeps.
using UpdateState = std::array<DeviceSpan<float>, 2>;

/// The factor by which LARS and LAMB multiply the rate of a tensor, from the norms of its parameters p and of
/// its gradient g as used (gradient_scale · g), with λ the weight decay of its range (You et al. 2017 and
/// 2020):
///
///     lars  coefficient · ‖p‖ / (‖g‖ + λ ‖p‖ + ε) if λ, ‖p‖, ‖g‖ > 0, else 1
///     lamb  ‖p‖ / ‖g‖ if ‖p‖, ‖g‖ > 0, else 1; g is the direction, not scaled by UpdateNumbers
struct TrustRatio {
  enum class Kind : std::uint8_t { lars, lamb };
  Kind kind = Kind::lamb;
  double coefficient = 1.0;
  double epsilon = 0.0;

  constexpr float operator()(double parameters, double gradients, double decay) const {
    if (!(parameters > 0.0 && gradients > 0.0)) return 1.0F;
    if (kind == Kind::lamb) return static_cast<float>(parameters / gradients);
    if (!(decay > 0.0)) return 1.0F;
    return static_cast<float>(coefficient * parameters / (gradients + decay * parameters + epsilon));
  }
  /// Whether the gradients are multiplied with UpdateNumbers::gradient_scale.
  constexpr bool scales_gradients() const { return kind == Kind::lars; }
  friend bool operator==(const TrustRatio&, const TrustRatio&) = default;
};

/// Updates of flat arrays, each one pass. The CPU and a GPU run the functors of flat/optimizer_formulas.hpp;
/// the reference device has formulas of its own in double.
class FlatUpdates {
 public:
  virtual ~FlatUpdates() = default;
  /// @param state as many arrays as the rule keeps; the others are not read
  virtual void update(const UpdateInput& in, const UpdateRule& rule, const UpdateState& state) = 0;
  /// An update with the rate factor of each range multiplied by the trust ratio of its values; the host waits
  /// for no norm. Only devices that run ahead of the host have it; with others the caller takes
  /// FlatMath::norms and sets the factors.
  virtual void update_by_norms(const UpdateInput& /*in*/, const TrustRatio& /*ratio*/,
                               const UpdateRule& /*rule*/, const UpdateState& /*state*/) {
    throw InternalError("this device has no updates by norms");
  }
};

}  // namespace flotilla
