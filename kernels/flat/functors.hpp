// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/error.hpp"
#include "kernels/flat/optimizer_formulas.hpp"
#include "kernels/flat_updates.hpp"

/// The functors over one index of flat operations, and the way from an update rule to its functor, shared by
/// all devices. All functions throw InternalError for wrong arguments.
namespace flotilla::flat {

struct Fill {
  float* x = nullptr;
  float value = 0.0F;
  constexpr void operator()(std::int64_t i) const { x[i] = value; }
  friend bool operator==(const Fill&, const Fill&) = default;
};

struct Copy {
  const float* from = nullptr;
  float* to = nullptr;
  constexpr void operator()(std::int64_t i) const { to[i] = from[i]; }
  friend bool operator==(const Copy&, const Copy&) = default;
};

struct Scale {
  float* x = nullptr;
  float factor = 1.0F;
  constexpr void operator()(std::int64_t i) const { x[i] *= factor; }
  friend bool operator==(const Scale&, const Scale&) = default;
};

struct Axpy {
  const float* x = nullptr;
  float* y = nullptr;
  float factor = 1.0F;
  constexpr void operator()(std::int64_t i) const { y[i] += factor * x[i]; }
  friend bool operator==(const Axpy&, const Axpy&) = default;
};

/// The square of a value, in double.
struct Square {
  const float* x = nullptr;
  constexpr double operator()(std::int64_t i) const {
    return static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  friend bool operator==(const Square&, const Square&) = default;
};

/// Zero for a finite value, NaN for NaN and the infinities: the sum is NaN unless all are finite.
struct NotFinite {
  const float* x = nullptr;
  constexpr double operator()(std::int64_t i) const { return static_cast<double>(x[i] * 0.0F); }
  friend bool operator==(const NotFinite&, const NotFinite&) = default;
};

/// FlatMath::pack_sums, of the pair at i.
struct PackSums {
  const float* first = nullptr;
  const float* second = nullptr;
  const float* shifts = nullptr;  ///< Null: none
  double* sums = nullptr;
  std::int64_t count = 0;

  constexpr void operator()(std::int64_t i) const {
    const double shift = shifts == nullptr ? 0.0 : static_cast<double>(shifts[i]);
    const double off = static_cast<double>(first[i]) - shift;
    sums[i] = off;
    sums[count + i] = static_cast<double>(second[i]) + (shifts == nullptr ? 0.0 : off * off);
  }
  friend bool operator==(const PackSums&, const PackSums&) = default;
};

/// FlatMath::unpack_sums, of the pair at i.
struct UnpackSums {
  const double* sums = nullptr;
  const float* shifts = nullptr;  ///< Null: none
  float* first = nullptr;
  float* second = nullptr;
  std::int64_t count = 0;
  double batches = 1.0;

  constexpr void operator()(std::int64_t i) const {
    if (shifts == nullptr) {
      first[i] = static_cast<float>(sums[i]);
      second[i] = static_cast<float>(sums[count + i]);
      return;
    }
    const double off = sums[i] / batches;
    const double variance = sums[count + i] / batches - off * off;
    first[i] = static_cast<float>(static_cast<double>(shifts[i]) + off);
    second[i] = static_cast<float>(variance < 0.0 ? 0.0 : variance);
  }
  friend bool operator==(const UnpackSums&, const UnpackSums&) = default;
};

inline void check_update(const UpdateInput& in) {
  const std::size_t size = in.parameters.size();
  require(in.gradients.size() == size, in.gradients.size(), " gradients for ", size, " parameters");
  const std::size_t halves = in.halves.values.size();
  require(halves == 0 || halves == size, halves, " halves for ", size, " parameters");
  for (const FlatRange& range : in.ranges) {
    require(
        range.offset >= 0 && range.count >= 0 && static_cast<std::size_t>(range.offset + range.count) <= size,
        "range ", range.offset, " + ", range.count, " lies outside ", size, " parameters");
  }
}

inline void check_sums(std::size_t first, std::size_t second, std::size_t shifts, std::size_t sums) {
  require(first == second && (shifts == 0 || shifts == first) && sums == 2 * first, sums, " sums of ", first,
          " and ", second, " values with ", shifts, " shifts");
}

/// The functor of FlatMath::pack_sums, for each pair.
inline PackSums pack_sums(DeviceSpan<const float> first, DeviceSpan<const float> second,
                          DeviceSpan<const float> shifts, DeviceSpan<double> sums) {
  check_sums(first.size(), second.size(), shifts.size(), sums.size());
  return {first.address(), second.address(), shifts.address(), sums.address(),
          static_cast<std::int64_t>(first.size())};
}

/// The functor of FlatMath::unpack_sums, for each pair.
inline UnpackSums unpack_sums(DeviceSpan<const double> sums, DeviceSpan<const float> shifts,
                              std::int64_t batches, DeviceSpan<float> first, DeviceSpan<float> second) {
  check_sums(first.size(), second.size(), shifts.size(), sums.size());
  require(batches > 0, "sums over ", batches, " batches");
  return {sums.address(),
          shifts.address(),
          first.address(),
          second.address(),
          static_cast<std::int64_t>(first.size()),
          static_cast<double>(batches)};
}

/// The address of an optimizer slot.
inline float* slot(const UpdateInput& in, DeviceSpan<float> values) {
  require(values.size() == in.parameters.size(), "a slot of ", values.size(), " values for ",
          in.parameters.size(), " parameters");
  return values.address();
}

/// The constants of Adam's moments at `step` = 1, 2, …; addresses are not set.
inline rules::Moments moments(const rules::Adam& rule, std::int64_t step) {
  require(step >= 1, "the first step is 1, got ", step);
  const auto correction = [&](double beta) {
    return 1.0 / (1.0 - std::pow(beta, static_cast<double>(step)));
  };
  return {.m = nullptr,
          .v = nullptr,
          .beta1 = rule.beta1,
          .beta2 = rule.beta2,
          .rest1 = 1.0F - rule.beta1,
          .rest2 = 1.0F - rule.beta2,
          .correction1 = static_cast<float>(correction(double{rule.beta1})),
          .correction2 = static_cast<float>(correction(double{rule.beta2})),
          .epsilon = rule.epsilon};
}

/// Calls body(functor) with the rule's functor at `step`; what it reads and its state's addresses are not
/// set.
template <class Body>
void with_functor(const UpdateRule& rule, std::int64_t step, const Body& body) {
  std::visit(
      [&](const auto& one) {
        rules::Update<std::decay_t<decltype(one)>> functor{.rule = one};
        if constexpr (requires { functor.moments; }) functor.moments = moments(one, step);
        if constexpr (requires { one.epsilon; }) {
          // With epsilon 0, padding and parameters without gradient would become 0 / 0.
          require(one.epsilon > 0.0F, "epsilon must be positive, got ", one.epsilon);
        }
        body(functor);
      },
      rule);
}

/// Calls body(functor) with the rule's functor for these arrays; the constants of ranges are not set.
template <class Body>
void with_functor(const UpdateInput& in, const UpdateRule& rule, const UpdateState& state, const Body& body) {
  check_update(in);
  with_functor(rule, in.step, [&](auto functor) {
    functor.in.p = in.parameters.address();
    functor.in.g = in.gradients.address();
    rules::StateAddresses arrays{};
    std::transform(state.begin(), state.begin() + functor.rule.state.size(), arrays.begin(),
                   [&](DeviceSpan<float> values) { return slot(in, values); });
    functor.set_state(arrays);
    if constexpr (requires { functor.rule.direction; }) slot(in, functor.rule.direction);
    body(functor);
  });
}

}  // namespace flotilla::flat
