// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/flat_updates.hpp"

/// The update rules as functors over one index: the host device applies them to chunks, a CUDA device
/// launches them through Kokkos. constexpr, so that code for devices can call them. Formulas:
/// kernels/flat_updates.hpp.
namespace flotilla::flat {

/// What all rules read. `rate`, `coupled` and `keep` are those of the current range.
struct Common {
  float* p = nullptr;
  const float* g = nullptr;
  float gradient_scale = 1.0F;
  float rate = 0.0F;     ///< Learning rate with the range's factor.
  float decay = 0.0F;    ///< λ
  float coupled = 0.0F;  ///< Weight decay added to the gradient.
  float keep = 1.0F;     ///< Factor of decoupled weight decay: 1 − rate · decay.

  constexpr float gradient(std::int64_t i) const { return gradient_scale * g[i] + coupled * p[i]; }
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

/// The update of value i under a rule. `arrays` of set_state are the addresses of what the rule keeps.
template <class Rule>
struct Update;

using StateAddresses = std::array<float*, 2>;

template <>
struct Update<rules::Sgd> {
  rules::Sgd rule;
  Common in{};
  constexpr void set_state(const StateAddresses&) {}
  constexpr void operator()(std::int64_t i) const { in.p[i] = in.keep * in.p[i] - in.rate * in.gradient(i); }
};

template <>
struct Update<rules::Momentum> {
  rules::Momentum rule;
  Common in{};
  float* v = nullptr;
  constexpr void set_state(const StateAddresses& arrays) { v = arrays[0]; }
  constexpr void operator()(std::int64_t i) const {
    const float velocity = rule.mu * v[i] + in.gradient(i);
    v[i] = velocity;
    in.p[i] = in.keep * in.p[i] - in.rate * velocity;
  }
};

template <>
struct Update<rules::Nesterov> {
  rules::Nesterov rule;
  Common in{};
  float* v = nullptr;
  constexpr void set_state(const StateAddresses& arrays) { v = arrays[0]; }
  constexpr void operator()(std::int64_t i) const {
    const float g = in.gradient(i);
    const float velocity = rule.mu * v[i] + g;
    v[i] = velocity;
    in.p[i] = in.keep * in.p[i] - in.rate * (g + rule.mu * velocity);
  }
};

template <>
struct Update<rules::Lars> {
  rules::Lars rule;
  Common in{};
  float* v = nullptr;
  constexpr void set_state(const StateAddresses& arrays) { v = arrays[0]; }
  constexpr void operator()(std::int64_t i) const {
    const float velocity = rule.mu * v[i] + in.rate * in.gradient(i);
    v[i] = velocity;
    in.p[i] = in.keep * in.p[i] - velocity;
  }
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
};

/// 28 bytes and one division and root per value: bound by memory beyond the cache.
template <>
struct Update<rules::Adam> {
  rules::Adam rule;
  Common in{};
  Moments moments{};
  constexpr void set_state(const StateAddresses& arrays) { moments.m = arrays[0], moments.v = arrays[1]; }
  constexpr void operator()(std::int64_t i) const {
    const float p = in.p[i];
    in.p[i] = in.keep * p - in.rate * moments.direction(i, in.gradient(i));
  }
};

template <>
struct Update<rules::LambDirection> {
  rules::LambDirection rule;
  Common in{};
  Moments moments{};
  constexpr void set_state(const StateAddresses& arrays) { moments.m = arrays[0], moments.v = arrays[1]; }
  constexpr void operator()(std::int64_t i) const {
    rule.direction.address()[i] = moments.direction(i, in.gradient_scale * in.g[i]) + in.decay * in.p[i];
  }
};

template <>
struct Update<rules::Adagrad> {
  rules::Adagrad rule;
  Common in{};
  float* a = nullptr;
  constexpr void set_state(const StateAddresses& arrays) { a = arrays[0]; }
  constexpr void operator()(std::int64_t i) const {
    const float g = in.gradient(i);
    const float sum = a[i] + g * g;
    a[i] = sum;
    in.p[i] = in.keep * in.p[i] - in.rate * g / (std::sqrt(sum) + rule.epsilon);
  }
};

struct Fill {
  float* x = nullptr;
  float value = 0.0F;
  constexpr void operator()(std::int64_t i) const { x[i] = value; }
};

struct Copy {
  const float* from = nullptr;
  float* to = nullptr;
  constexpr void operator()(std::int64_t i) const { to[i] = from[i]; }
};

struct Scale {
  float* x = nullptr;
  float factor = 1.0F;
  constexpr void operator()(std::int64_t i) const { x[i] *= factor; }
};

struct Axpy {
  const float* x = nullptr;
  float* y = nullptr;
  float factor = 1.0F;
  constexpr void operator()(std::int64_t i) const { y[i] += factor * x[i]; }
};

/// The square of a value, in double.
struct Square {
  const float* x = nullptr;
  constexpr double operator()(std::int64_t i) const {
    return static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
};

/// Zero for a finite value, NaN for NaN and the infinities: the sum is NaN unless all are finite.
struct NotFinite {
  const float* x = nullptr;
  constexpr double operator()(std::int64_t i) const { return static_cast<double>(x[i] * 0.0F); }
};

/// FlatMath::sum_rows.
struct SumRows {
  const float* rows = nullptr;
  float* sums = nullptr;
  std::int64_t count = 0;
  std::int64_t width = 0;

  constexpr void operator()(std::int64_t i) const {
    double sum = 0.0;
    for (std::int64_t row = 0; row < count; ++row) sum += static_cast<double>(rows[row * width + i]);
    sums[i] = static_cast<float>(sum);
  }
};

/// FlatMath::combine_moments, of the mean at i and its variance.
struct CombineMoments {
  const float* rows = nullptr;
  float* moments = nullptr;
  std::int64_t batches = 0;
  std::int64_t means = 0;  ///< In a row
  double count = 0.0;

  constexpr void operator()(std::int64_t i) const {
    const double total = count * static_cast<double>(batches);
    double mean = 0.0;
    for (std::int64_t batch = 0; batch < batches; ++batch) mean += count * at(batch, i);
    mean /= total;
    double squares = 0.0;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      const double off = at(batch, i) - mean;
      squares += count * (at(batch, means + i) + off * off);
    }
    moments[i] = static_cast<float>(mean);
    moments[means + i] = static_cast<float>(squares / total);
  }

 private:
  constexpr double at(std::int64_t batch, std::int64_t i) const {
    return static_cast<double>(rows[batch * 2 * means + i]);
  }
};

}  // namespace flotilla::flat
