// SPDX-License-Identifier: Apache-2.0
#include "kernels/device_loops/plans.hpp"

#include <cstring>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::size_t judgement_floats = sizeof(Judgement) / sizeof(float);
static_assert(sizeof(Judgement) % sizeof(float) == 0);

class LoopsStepJudge : public StepJudge {
 public:
  LoopsStepJudge(const LoopsContext& context, const JudgeSpec& spec)
      : context_(context),
        spec_(spec),
        judgement_(context.device.allocate(judgement_floats)),
        flag_(context.device.allocate(1)) {}

  void begin(const ScaleState& state, std::int64_t steps) override {
    Judgement first;
    first.state = state;
    first.steps = steps;
    first.backward_scale = state.scale / spec_.loss_divisor;
    std::vector<float> words(judgement_floats);
    std::memcpy(words.data(), &first, sizeof first);
    context_.device.upload(words, judgement_.span());
    begun_ = true;
  }

  Late<float> backward_scale() const override { return Late<float>(&judgement()->backward_scale); }

  const UpdateNumbers* judge(DeviceSpan<const float> array, float learning_rate, double summed,
                             DeviceSpan<float> tells) override {
    require(begun_, "a judge was never told where to begin");
    require(tells.size() == told_floats, "a judge tells ", told_floats, " values, got room for ",
            tells.size());
    context_.loops.flag_not_finite(values_of(array), flag_.span());
    context_.loops.judge(spec_, learning_rate, summed, flag_.span(), judgement(), tells);
    return &judgement()->update;
  }

  void restore(DeviceSpan<const float> before, DeviceSpan<float> values) override {
    require(before.size() == values.size(), "values of ", values.size(), " cannot become ", before.size());
    context_.loops.restore(judgement(), before, values);
  }

 private:
  /// An address of the device.
  Judgement* judgement() { return reinterpret_cast<Judgement*>(judgement_.span().address()); }
  const Judgement* judgement() const {
    return reinterpret_cast<const Judgement*>(judgement_.span().address());
  }

  LoopsContext context_;
  JudgeSpec spec_;
  Storage judgement_;
  Storage flag_;
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<StepJudge> make_step_judge(const LoopsContext& context, const JudgeSpec& spec) {
  return std::make_unique<LoopsStepJudge>(context, spec);
}

}  // namespace flotilla
