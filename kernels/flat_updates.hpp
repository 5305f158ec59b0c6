// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <variant>

#include "kernels/error.hpp"
#include "kernels/flat_math.hpp"
#include "kernels/precision.hpp"
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

/// Where an update writes the parameters in half precision as well, each at its parameter's place; empty:
/// nowhere.
struct HalfCopy {
  HalfSpan values;
  Precision precision = Precision::float16;  ///< The device's
  friend bool operator==(const HalfCopy&, const HalfCopy&) = default;
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
  std::int64_t step = 1;  ///< 1, 2, …: of Adam's and LAMB's corrections for bias
  /// Not null: device memory from which the update reads these numbers; learning_rate, gradient_scale and
  /// `step` are then ignored. Devices without graphs are never given it.
  const UpdateNumbers* numbers = nullptr;
  HalfCopy halves = {};  ///< Only where DeviceInfo::reads_halves
};

/// The update rules of optimizers: their formulas and constants. lr includes the range's rate_factor. `state`
/// names the arrays that a rule keeps, each as long as the parameters and zero at first, in the order of
/// UpdateState; checkpoints hold them under these names.
namespace rules {

/// p ← p − lr g.
struct Sgd {
  static constexpr std::array<const char*, 0> state{};
  friend bool operator==(const Sgd&, const Sgd&) = default;
};

/// v ← μ v + g;  p ← p − lr v. No dampening.
struct Momentum {
  static constexpr std::array state = {"momentum"};
  float mu = 0.9F;
  friend bool operator==(const Momentum&, const Momentum&) = default;
};

/// v ← μ v + g;  p ← p − lr (g + μ v).
struct Nesterov {
  static constexpr std::array state = {"momentum"};
  float mu = 0.9F;
  friend bool operator==(const Nesterov&, const Nesterov&) = default;
};

/// LARS' form of momentum: v ← μ v + lr g;  p ← p − v (You et al. 2017).
struct Lars {
  static constexpr std::array state = {"momentum"};
  float mu = 0.9F;
  friend bool operator==(const Lars&, const Lars&) = default;
};

/// m ← β₁ m + (1 − β₁) g;  v ← β₂ v + (1 − β₂) g²;  p ← p − lr m̂ / (√v̂ + ε), m̂ = m / (1 − β₁ᵗ) and
/// v̂ = v / (1 − β₂ᵗ) at step t (Kingma & Ba 2015). ε must be positive.
struct Adam {
  static constexpr std::array state = {"adam_m", "adam_v"};
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  friend bool operator==(const Adam&, const Adam&) = default;
};

/// First half of LAMB: moments as in Adam, direction ← m̂ / (√v̂ + ε) + λ p, whatever UpdateInput::decay says
/// (You et al. 2020). The second half is Sgd with gradients = direction, no decay, rate_factor =
/// ‖p‖ / ‖direction‖. Not for rows of tables.
struct LambDirection : Adam {
  DeviceSpan<float> direction;
  friend bool operator==(const LambDirection&, const LambDirection&) = default;
};

/// a ← a + g²;  p ← p − lr g / (√a + ε) (Duchi et al. 2011). ε must be positive.
struct Adagrad {
  static constexpr std::array state = {"adagrad_sum"};
  float epsilon = 1e-8F;
  friend bool operator==(const Adagrad&, const Adagrad&) = default;
};

}  // namespace rules

using UpdateRule = std::variant<rules::Sgd, rules::Momentum, rules::Nesterov, rules::Lars, rules::Adam,
                                rules::LambDirection, rules::Adagrad>;

/// The arrays that a rule keeps.
using UpdateState = std::array<DeviceSpan<float>, 2>;

/// The names of the arrays that a rule keeps.
inline std::span<const char* const> rule_state_names(const UpdateRule& rule) {
  return std::visit([](const auto& one) { return std::span<const char* const>(one.state); }, rule);
}

/// By which LARS and LAMB multiply the rate of a tensor, from the norms of its parameters p and of its
/// gradient g as used (gradient_scale · g), with λ the weight decay of its range (You et al. 2017 and 2020):
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

/// Updates of flat arrays, each one pass. On the CPU and on a GPU the rules are the functors of
/// flat/rules.hpp; the reference device has plain loops.
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
