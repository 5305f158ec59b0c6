// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/gpu/loops/launch.hpp"
#include "kernels/gpu/loops/plan_scope.hpp"
#include "kernels/overflow_guard.hpp"

namespace flotilla::loops {

/// The state of an OverflowGuard on the device.
struct ScalerState {
  UpdateNumbers update;  ///< Numbers of the last step that was checked
  float backward_scale = 1.0F;
  ScaleState state;
  std::int64_t steps = 0;  ///< Taken by the optimizer
};

/// flag[0] ← 1 where a value is NaN or infinite: many lanes may write the same.
template <class T>
struct FlagNotFinite {
  const T* x = nullptr;
  float* flag = nullptr;
  template <int V>
  KOKKOS_INLINE_FUNCTION void operator()(Width<V>, std::int64_t first) const {
    const Floats<V> values = load_floats<V>(x, first);
    float sum = 0.0F;
    for (int v = 0; v < V; ++v) sum += values[v] * 0.0F;  // NaN of NaN and the infinities
    if (sum != 0.0F) flag[0] = 1.0F;
  }
  friend bool operator==(const FlagNotFinite&, const FlagNotFinite&) = default;
};

/// One thread: whether a step is taken, and the next loss scale.
struct CheckOverflow {
  OverflowGuardSpec spec;
  DeviceScalar<float> learning_rate;
  double summed = 1.0;
  float* flag = nullptr;  ///< 0: finite; is 0 again afterwards
  ScalerState* state = nullptr;
  float* report = nullptr;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t) const {
    const bool taken = *flag == 0.0F;
    *flag = 0.0F;
    ScalerState next = *state;
    if (taken) ++next.steps;
    next.update = {
        .learning_rate = learning_rate.get(),
        .gradient_scale = static_cast<float>(1.0 / (summed * static_cast<double>(next.state.scale))),
        .correction1 = correction(spec.beta1, next.steps),
        .correction2 = correction(spec.beta2, next.steps),
        .taken = taken ? 1.0F : 0.0F};
    adjust_scale(spec.rule, next.state, taken);
    next.backward_scale = next.state.scale / spec.loss_divisor;
    *state = next;
    report[report_scale] = next.state.scale;
    report[report_good] = static_cast<float>(next.state.good);
    report[report_consecutive] = static_cast<float>(next.state.consecutive_overflows);
    report[report_skipped] = static_cast<float>(next.state.skipped);
  }

  KOKKOS_INLINE_FUNCTION static float correction(float beta, std::int64_t steps) {
    if (steps == 0) return 1.0F;
    return static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta), static_cast<double>(steps))));
  }
  friend bool operator==(const CheckOverflow&, const CheckOverflow&) = default;
};

struct RestoreValues {
  const ScalerState* state = nullptr;
  const float* before = nullptr;
  float* values = nullptr;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    if (state->update.taken == 0.0F) values[i] = before[i];
  }
  friend bool operator==(const RestoreValues&, const RestoreValues&) = default;
};

template <class Space>
class OverflowGuardPlan : public OverflowGuard {
 public:
  OverflowGuardPlan(const PlanScope<Space>& scope, const OverflowGuardSpec& spec)
      : scope_(scope),
        spec_(spec),
        state_(scope.memory.allocate(state_floats)),
        flag_(scope.memory.allocate(1)) {}

  void begin(const ScaleState& state, std::int64_t steps) override {
    ScalerState first;
    first.state = state;
    first.steps = steps;
    first.backward_scale = state.scale / spec_.loss_divisor;
    std::vector<float> words(state_floats);
    std::memcpy(words.data(), &first, sizeof first);
    scope_.memory.upload(words, state_.span());
    begun_ = true;
  }

  DeviceScalar<float> backward_scale() const override {
    return DeviceScalar<float>(&state()->backward_scale);
  }

  const UpdateNumbers* check(DeviceSpan<const float> array, float learning_rate, double summed,
                             DeviceSpan<float> report) override {
    require(begun_, "OverflowGuard::check before begin");
    require(report.size() == report_floats, "an overflow check reports ", report_floats,
            " values, got room for ", report.size());
    for_each_pack<full_pack<Float32>>(scope_.space, "finite check", static_cast<std::int64_t>(array.size()),
                                      FlagNotFinite<Float32>{elements(array), flag_.span().address()});
    for_each(scope_.space, "check_overflow", 1,
             CheckOverflow{spec_, late(scope_.space, learning_rate), summed, flag_.span().address(), state(),
                           report.address()});
    return &state()->update;
  }

  void restore(DeviceSpan<const float> before, DeviceSpan<float> values) override {
    require(before.size() == values.size(), "values of ", values.size(), " cannot become ", before.size());
    for_each(scope_.space, "restore", static_cast<std::int64_t>(values.size()),
             RestoreValues{state(), before.address(), values.address()});
  }

 private:
  static constexpr std::size_t state_floats = sizeof(ScalerState) / sizeof(float);
  static_assert(sizeof(ScalerState) % sizeof(float) == 0);

  /// An address of the device.
  ScalerState* state() { return reinterpret_cast<ScalerState*>(state_.span().address()); }
  const ScalerState* state() const { return reinterpret_cast<const ScalerState*>(state_.span().address()); }

  PlanScope<Space> scope_;
  OverflowGuardSpec spec_;
  Storage state_;
  Storage flag_;
  bool begun_ = false;
};

}  // namespace flotilla::loops
