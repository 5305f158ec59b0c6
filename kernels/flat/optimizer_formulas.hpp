// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <variant>

#include "kernels/tensor.hpp"

/// The optimizers' update rules: for each its formula and constants, and the functor over one index that
/// computes it on the CPU, on GPUs (through Kokkos) and for rows of tables. Functors are constexpr, so that
/// code for devices can call them. The reference device has each formula again, in double
/// (reference/flat.cpp). src/config/optimizers.cpp says which rule a deck's optimizer uses.
namespace flotilla {

enum class Decay {
  coupled,    ///< g ← g + λ p before the rule (L2 regularisation)
  decoupled,  ///< p ← p − lr λ p in addition to the rule (AdamW, Loshchilov & Hutter 2019)
};

namespace rules {

/// Inputs and constants of every rule. `rate`, `coupled` and `keep` are those of the current range.
struct Common {
  float* p = nullptr;
  const float* g = nullptr;
  float gradient_scale = 1.0F;
  float rate = 0.0F;     ///< Learning rate with the range's factor.
  float decay = 0.0F;    ///< λ
  float coupled = 0.0F;  ///< Weight decay added to the gradient.
  float keep = 1.0F;     ///< Factor of decoupled weight decay: 1 − rate · decay.

  constexpr float gradient(std::int64_t i) const { return gradient_scale * g[i] + coupled * p[i]; }
  friend bool operator==(const Common&, const Common&) = default;
};

/// Fills in the constants that all rules share, of a range with this rate and weight decay.
constexpr void set_constants(Common& common, float gradient_scale, float rate, Decay decay,
                             float weight_decay) {
  common.gradient_scale = gradient_scale;
  common.rate = rate;
  common.decay = weight_decay;
  common.coupled = decay == Decay::coupled ? weight_decay : 0.0F;
  common.keep = decay == Decay::coupled ? 1.0F : 1.0F - rate * weight_decay;
}

/// The update of value i by a rule. `arrays` of set_state are the addresses of the arrays that the rule
/// keeps.
template <class Rule>
struct Update;

using StateAddresses = std::array<float*, 2>;

// lr includes the rate_factor of the range. `state` names the arrays that a rule keeps, each as long as the
// parameters and zero at first, in the order of UpdateState; checkpoints hold them under these names.

/// p ← p − lr g.
struct Sgd {
  static constexpr std::array<const char*, 0> state{};
  friend bool operator==(const Sgd&, const Sgd&) = default;
};

template <>
struct Update<Sgd> {
  Sgd rule;
  Common in{};
  constexpr void set_state(const StateAddresses&) {}
  constexpr void operator()(std::int64_t i) const { in.p[i] = in.keep * in.p[i] - in.rate * in.gradient(i); }
  friend bool operator==(const Update&, const Update&) = default;
};

/// v ← μ v + g;  p ← p − lr v. No dampening.
struct Momentum {
  static constexpr std::array state = {"momentum"};
  float mu = 0.9F;
  friend bool operator==(const Momentum&, const Momentum&) = default;
};

template <>
struct Update<Momentum> {
  Momentum rule;
  Common in{};
  float* v = nullptr;
  constexpr void set_state(const StateAddresses& arrays) { v = arrays[0]; }
  constexpr void operator()(std::int64_t i) const {
    const float velocity = rule.mu * v[i] + in.gradient(i);
    v[i] = velocity;
    in.p[i] = in.keep * in.p[i] - in.rate * velocity;
  }
  friend bool operator==(const Update&, const Update&) = default;
};

/// v ← μ v + g;  p ← p − lr (g + μ v).
struct Nesterov {
  static constexpr std::array state = {"momentum"};
  float mu = 0.9F;
  friend bool operator==(const Nesterov&, const Nesterov&) = default;
};

template <>
struct Update<Nesterov> {
  Nesterov rule;
  Common in{};
  float* v = nullptr;
  constexpr void set_state(const StateAddresses& arrays) { v = arrays[0]; }
  constexpr void operator()(std::int64_t i) const {
    const float g = in.gradient(i);
    const float velocity = rule.mu * v[i] + g;
    v[i] = velocity;
    in.p[i] = in.keep * in.p[i] - in.rate * (g + rule.mu * velocity);
  }
  friend bool operator==(const Update&, const Update&) = default;
};

/// LARS' form of momentum: v ← μ v + lr g;  p ← p − v (You et al. 2017).
struct Lars {
  static constexpr std::array state = {"momentum"};
  float mu = 0.9F;
  friend bool operator==(const Lars&, const Lars&) = default;
};

template <>
struct Update<Lars> {
  Lars rule;
  Common in{};
  float* v = nullptr;
  constexpr void set_state(const StateAddresses& arrays) { v = arrays[0]; }
  constexpr void operator()(std::int64_t i) const {
    const float velocity = rule.mu * v[i] + in.rate * in.gradient(i);
    v[i] = velocity;
    in.p[i] = in.keep * in.p[i] - velocity;
  }
  friend bool operator==(const Update&, const Update&) = default;
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

/// m, v and their bias corrections, shared by Adam and LAMB.
struct Moments {
  float* m = nullptr;
  float* v = nullptr;
  float beta1 = 0.0F;
  float beta2 = 0.0F;
  float rest1 = 1.0F;        ///< 1 − β₁
  float rest2 = 1.0F;        ///< 1 − β₂
  float correction1 = 1.0F;  ///< 1 / (1 − β₁ᵗ)
  float correction2 = 1.0F;  ///< 1 / (1 − β₂ᵗ)
  float epsilon = 0.0F;

  /// Updates both moments with g and returns m̂ / (√v̂ + ε).
  constexpr float direction(std::int64_t i, float g) const {
    const float first = beta1 * m[i] + rest1 * g;
    const float second = beta2 * v[i] + rest2 * (g * g);
    m[i] = first;
    v[i] = second;
    return correction1 * first / (std::sqrt(correction2 * second) + epsilon);
  }
  friend bool operator==(const Moments&, const Moments&) = default;
};

/// 28 bytes and one division and root per value: bound by memory beyond the cache.
template <>
struct Update<Adam> {
  Adam rule;
  Common in{};
  Moments moments{};
  constexpr void set_state(const StateAddresses& arrays) { moments.m = arrays[0], moments.v = arrays[1]; }
  constexpr void operator()(std::int64_t i) const {
    const float p = in.p[i];
    in.p[i] = in.keep * p - in.rate * moments.direction(i, in.gradient(i));
  }
  friend bool operator==(const Update&, const Update&) = default;
};

/// First half of LAMB: moments as in Adam, direction ← m̂ / (√v̂ + ε) + λ p, whatever UpdateInput::decay says
/// (You et al. 2020). The second half is Sgd with gradients = direction, no decay, rate_factor =
/// ‖p‖ / ‖direction‖. Not for rows of tables.
struct LambDirection : Adam {
  DeviceSpan<float> direction;
  friend bool operator==(const LambDirection&, const LambDirection&) = default;
};

template <>
struct Update<LambDirection> {
  LambDirection rule;
  Common in{};
  Moments moments{};
  constexpr void set_state(const StateAddresses& arrays) { moments.m = arrays[0], moments.v = arrays[1]; }
  constexpr void operator()(std::int64_t i) const {
    rule.direction.address()[i] = moments.direction(i, in.gradient_scale * in.g[i]) + in.decay * in.p[i];
  }
  friend bool operator==(const Update&, const Update&) = default;
};

/// a ← a + g²;  p ← p − lr g / (√a + ε) (Duchi et al. 2011). ε must be positive.
struct Adagrad {
  static constexpr std::array state = {"adagrad_sum"};
  float epsilon = 1e-8F;
  friend bool operator==(const Adagrad&, const Adagrad&) = default;
};

template <>
struct Update<Adagrad> {
  Adagrad rule;
  Common in{};
  float* a = nullptr;
  constexpr void set_state(const StateAddresses& arrays) { a = arrays[0]; }
  constexpr void operator()(std::int64_t i) const {
    const float g = in.gradient(i);
    const float sum = a[i] + g * g;
    a[i] = sum;
    in.p[i] = in.keep * in.p[i] - in.rate * g / (std::sqrt(sum) + rule.epsilon);
  }
  friend bool operator==(const Update&, const Update&) = default;
};

}  // namespace rules

using UpdateRule = std::variant<rules::Sgd, rules::Momentum, rules::Nesterov, rules::Lars, rules::Adam,
                                rules::LambDirection, rules::Adagrad>;

/// The names of the arrays that a rule keeps.
inline std::span<const char* const> rule_state_names(const UpdateRule& rule) {
  return std::visit([](const auto& one) { return std::span<const char* const>(one.state); }, rule);
}

}  // namespace flotilla
