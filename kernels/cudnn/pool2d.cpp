// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/loop_plans.hpp"

#include "kernels/image_checks.hpp"

namespace flotilla {

namespace {

class LoopsPool2d final : public Pool2d {
 public:
  LoopsPool2d(const LoopsContext& context, const Pool2dSpec& spec) : context_(context), spec_(spec) {
    check_spec(spec);
    check_32_bit_size("pooling on a GPU", spec.input);
    const auto places = static_cast<std::size_t>(output_shape().size());
    if (spec.kind == Pooling::max) chosen_ = context.memory.allocate((places + 3) / 4);
  }
  Shape output_shape() const override { return flotilla::output_shape(spec_); }
  void forward(const Tensor& x, Tensor& y) override {
    check_nhwc("x", x, spec_.input);
    check_nhwc("y", y, output_shape());
    context_.loops.pool(spec_, values_of(x, context_.precision), values_of(y, context_.precision), chosen());
  }
  void backward(const Tensor& dy, Tensor& dx) override {
    check_nhwc("dy", dy, output_shape());
    check_nhwc("dx", dx, spec_.input);
    context_.loops.pool_backward(spec_, chosen(), values_of(dy, context_.precision),
                                 values_of(dx, context_.precision));
  }

 private:
  std::uint8_t* chosen() { return reinterpret_cast<std::uint8_t*>(chosen_.span().address()); }

  LoopsContext context_;
  Pool2dSpec spec_;
  Storage chosen_;  // bytes: where in its window the largest value is
};

}  // namespace

std::unique_ptr<Pool2d> make_pool2d(const LoopsContext& context, const Pool2dSpec& spec) {
  return std::make_unique<LoopsPool2d>(context, spec);
}

}  // namespace flotilla
