// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/loop_plans.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

namespace {

class LoopsOutputLoss : public Loss {
 public:
  LoopsOutputLoss(const LoopsContext& context, const OutputLossSpec& spec) : context_(context), spec_(spec) {
    check_spec(spec);
    targets_ = context.memory.allocate(static_cast<std::size_t>(spec.batch * spec.outputs));
  }

  void forward(const Tensor& outputs, const Targets& targets, DeviceSpan<float> sums) override {
    check_targets(spec_, targets);
    const auto count = static_cast<std::size_t>(targets.valid * spec_.outputs);
    context_.memory.upload(targets.values.first(count), targets_.span().subspan(0, count));
    context_.loops.output_loss(spec_, values_of(outputs, context_.precision), on_device(targets), sums);
  }
  void backward(const Tensor& outputs, const Targets& targets, DeviceScalar<float> scale,
                Tensor& gradient) override {
    check_targets(spec_, targets);
    check_shape("the outputs' gradient", gradient, outputs.shape());
    context_.loops.output_loss_backward(spec_, values_of(outputs, context_.precision), on_device(targets),
                                        scale, values_of(gradient, context_.precision));
  }

 private:
  DeviceTargets on_device(const Targets& targets) {
    return {.valid = targets.valid, .values = targets_.span().address()};
  }

  LoopsContext context_;
  OutputLossSpec spec_;
  Storage targets_;
};

}  // namespace

std::unique_ptr<Loss> make_output_loss(const LoopsContext& context, const OutputLossSpec& spec) {
  return std::make_unique<LoopsOutputLoss>(context, spec);
}

}  // namespace flotilla
