// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/loop_plans.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

namespace {

class LoopsSoftmaxLoss : public Loss {
 public:
  LoopsSoftmaxLoss(const LoopsContext& context, const SoftmaxLossSpec& spec)
      : context_(context), spec_(spec), rows_(static_cast<std::size_t>(spec.batch)) {
    check_spec(spec);
    normalisers_ = context.memory.allocate(2 * rows_);
    labels_ = context.memory.allocate(rows_);
    other_labels_ = context.memory.allocate(rows_);
  }

  void forward(const Tensor& logits, const Targets& targets, DeviceSpan<float> sums) override {
    check_targets(spec_, targets);
    upload(targets.labels, labels_);
    if (targets.other_share > 0.0F) upload(targets.other_labels, other_labels_);
    context_.loops.softmax_loss(spec_, values_of(logits, context_.precision), on_device(targets),
                                normalisers_.span(), sums);
  }
  void backward(const Tensor& logits, const Targets& targets, DeviceScalar<float> scale,
                Tensor& dlogits) override {
    check_targets(spec_, targets);
    check_shape("the logits' gradient", dlogits, logits.shape());
    context_.loops.softmax_loss_backward(spec_, values_of(logits, context_.precision), on_device(targets),
                                         normalisers_.span(), scale, values_of(dlogits, context_.precision));
  }

 private:
  /// Devices copy floats; what their bits mean is up to the reader.
  void upload(std::span<const std::int32_t> labels, Storage& to) {
    const std::size_t count = std::min(labels.size(), rows_);
    context_.memory.upload({reinterpret_cast<const float*>(labels.data()), count},
                           to.span().subspan(0, count));
  }
  DeviceTargets on_device(const Targets& targets) {
    return {.labels = reinterpret_cast<const std::int32_t*>(labels_.span().address()),
            .valid = targets.valid,
            .other_labels = reinterpret_cast<const std::int32_t*>(other_labels_.span().address()),
            .other_share = targets.other_share};
  }

  LoopsContext context_;
  SoftmaxLossSpec spec_;
  std::size_t rows_ = 0;
  Storage normalisers_;
  Storage labels_;
  Storage other_labels_;
};

}  // namespace

std::unique_ptr<Loss> make_softmax_loss(const LoopsContext& context, const SoftmaxLossSpec& spec) {
  return std::make_unique<LoopsSoftmaxLoss>(context, spec);
}

}  // namespace flotilla
