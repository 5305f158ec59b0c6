// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/loop_plans.hpp"
#include "kernels/image_checks.hpp"

namespace flotilla {

namespace {

class LoopsElementwise : public Elementwise {
 public:
  LoopsElementwise(const LoopsContext& context, const ElementwiseSpec& spec)
      : context_(context), spec_(spec) {}
  void forward(const Tensor& x, Tensor& y) override {
    check_elementwise(spec_, {&x, &y});
    context_.loops.activate(spec_.function, values_of(x, context_.precision),
                            values_of(y, context_.precision));
  }
  void backward(const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) override {
    check_elementwise(spec_, {&x, &y, &dy, &dx});
    context_.loops.activate_backward(spec_.function, values_of(x, context_.precision),
                                     values_of(y, context_.precision), values_of(dy, context_.precision),
                                     values_of(dx, context_.precision));
  }

 private:
  LoopsContext context_;
  ElementwiseSpec spec_;
};

}  // namespace

std::unique_ptr<Elementwise> make_elementwise(const LoopsContext& context, const ElementwiseSpec& spec) {
  return std::make_unique<LoopsElementwise>(context, spec);
}

}  // namespace flotilla
