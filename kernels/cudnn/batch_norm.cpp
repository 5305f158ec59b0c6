// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/loop_plans.hpp"

#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"

namespace flotilla {

namespace {

class LoopsBatchNorm : public BatchNorm {
 public:
  LoopsBatchNorm(const LoopsContext& context, const BatchNormSpec& spec) : context_(context), spec_(spec) {
    check_spec(spec);
    if (spec.after == AfterNorm::add_relu)
      positive_ = context.memory.allocate(
          static_cast<std::size_t>((norm_mask_bytes(spec, context.precision) + 3) / 4));
    if (spec.accumulate) sums_ = context.memory.allocate(2 * static_cast<std::size_t>(spec.input[1]));
  }

  void forward(const Tensor& x, const Tensor* residual, ScaleShift w, Statistics batch,
               const RunningStatistics& running, Tensor& y) override {
    context_.loops.norm_statistics(spec_, values("x", x), batch, running);
    normalise(x, residual, w, batch, y);
  }
  void statistics(const Tensor& x, Statistics batch) override {
    context_.loops.norm_statistics(spec_, values("x", x), batch, {});
  }
  void normalise(const Tensor& x, const Tensor* residual, ScaleShift w, GivenStatistics s,
                 Tensor& y) override {
    context_.loops.normalise(spec_, values("x", x), values("the residual", residual), w, s, values("y", y),
                             positive());
  }
  void backward_sums(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s, const Tensor& dy,
                     const Tensor* more_dy, Tensor* dresidual, ScaleShiftGradients sums) override {
    check_nhwc("y", y, spec_.input);
    add_gradients(x, w, s, dy, more_dy, dresidual, sums, {});
  }
  void backward_data(const Tensor& x, ScaleShift w, GivenStatistics s, GivenStatistics sums, double count,
                     const Tensor& dy, Tensor& dx) override {
    context_.loops.norm_backward_data(spec_, values("x", x), w, s, sums, count, values("dy", dy),
                                      values("dx", dx));
  }
  void backward(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s, const Tensor& dy,
                const Tensor* more_dy, ScaleShiftGradients gradients, Tensor& dx,
                Tensor* dresidual) override {
    const auto channels = static_cast<std::size_t>(spec_.input[1]);
    ScaleShiftGradients sums = gradients;
    if (spec_.accumulate)
      sums = {sums_.span().subspan(0, channels), sums_.span().subspan(channels, channels)};
    check_nhwc("y", y, spec_.input);
    add_gradients(x, w, s, dy, more_dy, dresidual, sums,
                  spec_.accumulate ? gradients : ScaleShiftGradients{});
    backward_data(x, w, s, sums, static_cast<double>(spec_.input.size() / spec_.input[1]),
                  dresidual == nullptr ? dy : *dresidual, dx);
  }

 private:
  void add_gradients(const Tensor& x, ScaleShift w, GivenStatistics s, const Tensor& dy,
                     const Tensor* more_dy, Tensor* dresidual, ScaleShiftGradients sums,
                     ScaleShiftGradients gradients) {
    require(more_dy == nullptr || spec_.after == AfterNorm::add_relu,
            "a second gradient of y is for add_relu only");
    const NormGradients in{.x = values("x", x),
                           .positive = positive(),
                           .dy = values("dy", dy),
                           .more_dy = values("the second dy", more_dy)};
    const Values result = dresidual == nullptr ? Values{} : values("dresidual", *dresidual);
    context_.loops.norm_backward_sums(spec_, in, w, s, result, sums, gradients);
  }
  std::uint8_t* positive() { return reinterpret_cast<std::uint8_t*>(positive_.span().address()); }
  GivenValues values(const char* name, const Tensor& tensor) const {
    check_nhwc(name, tensor, spec_.input);
    return values_of(tensor, context_.precision);
  }
  Values values(const char* name, Tensor& tensor) const {
    check_nhwc(name, tensor, spec_.input);
    return values_of(tensor, context_.precision);
  }
  GivenValues values(const char* name, const Tensor* tensor) const {
    return tensor == nullptr ? GivenValues{} : values(name, *tensor);
  }

  LoopsContext context_;
  BatchNormSpec spec_;
  Storage positive_;  // with add_relu: which values of the last y are above zero, a bit each
  Storage sums_;      // with accumulate: what this call adds
};

}  // namespace

std::unique_ptr<BatchNorm> make_batch_norm(const LoopsContext& context, const BatchNormSpec& spec) {
  return std::make_unique<LoopsBatchNorm>(context, spec);
}

}  // namespace flotilla
