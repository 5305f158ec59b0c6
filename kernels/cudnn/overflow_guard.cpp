// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/loop_plans.hpp"

#include <cstring>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::size_t state_floats = sizeof(ScalerState) / sizeof(float);
static_assert(sizeof(ScalerState) % sizeof(float) == 0);

class LoopsOverflowGuard : public OverflowGuard {
 public:
  LoopsOverflowGuard(const LoopsContext& context, const OverflowGuardSpec& spec)
      : context_(context),
        spec_(spec),
        state_(context.memory.allocate(state_floats)),
        flag_(context.memory.allocate(1)) {}

  void begin(const ScaleState& state, std::int64_t steps) override {
    ScalerState first;
    first.state = state;
    first.steps = steps;
    first.backward_scale = state.scale / spec_.loss_divisor;
    std::vector<float> words(state_floats);
    std::memcpy(words.data(), &first, sizeof first);
    context_.memory.upload(words, state_.span());
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
    context_.loops.flag_not_finite(values_of(array), flag_.span());
    context_.loops.check_overflow(spec_, learning_rate, summed, flag_.span(), state(), report);
    return &state()->update;
  }

  void restore(DeviceSpan<const float> before, DeviceSpan<float> values) override {
    require(before.size() == values.size(), "values of ", values.size(), " cannot become ", before.size());
    context_.loops.restore(state(), before, values);
  }

 private:
  /// An address of the device.
  ScalerState* state() { return reinterpret_cast<ScalerState*>(state_.span().address()); }
  const ScalerState* state() const { return reinterpret_cast<const ScalerState*>(state_.span().address()); }

  LoopsContext context_;
  OverflowGuardSpec spec_;
  Storage state_;
  Storage flag_;
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<OverflowGuard> make_overflow_guard(const LoopsContext& context,
                                                   const OverflowGuardSpec& spec) {
  return std::make_unique<LoopsOverflowGuard>(context, spec);
}

}  // namespace flotilla
