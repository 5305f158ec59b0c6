// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/loop_plans.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

namespace {

class LoopsLayerNorm : public LayerNorm {
 public:
  LoopsLayerNorm(const LoopsContext& context, const LayerNormSpec& spec) : context_(context), spec_(spec) {
    check_spec(spec);
    moments_ = context.memory.allocate(2 * static_cast<std::size_t>(spec.rows));
  }
  void forward(const Tensor& x, ScaleShift w, Tensor& y) override {
    check_layer_norm(spec_, {&x, &y}, w);
    context_.loops.layer_norm(spec_, values_of(x, context_.precision), w, moments_.span(),
                              values_of(y, context_.precision));
  }
  void backward(const Tensor& x, ScaleShift w, const Tensor& dy, ScaleShiftGradients gradients,
                Tensor& dx) override {
    check_layer_norm(spec_, {&x, &dy, &dx}, w);
    check_layer_norm(spec_, {}, gradients);
    context_.loops.layer_norm_backward(spec_, values_of(x, context_.precision), w, moments_.span(),
                                       values_of(dy, context_.precision), gradients,
                                       values_of(dx, context_.precision));
  }

 private:
  LoopsContext context_;
  LayerNormSpec spec_;
  Storage moments_;  // (rows, 2): mean, 1 / √(variance + ε)
};

}  // namespace

std::unique_ptr<LayerNorm> make_layer_norm(const LoopsContext& context, const LayerNormSpec& spec) {
  return std::make_unique<LoopsLayerNorm>(context, spec);
}

}  // namespace flotilla
