// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/cuda_conv2d.hpp"

#include <algorithm>
#include <utility>

#include "kernels/device_loops/plans.hpp"
#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

namespace {

const Conv2dSpec& checked(const Conv2dSpec& spec) {
  check_spec(spec);
  return spec;
}

constexpr float one = 1.0F;
constexpr float zero = 0.0F;

}  // namespace

CudaConv2d::CudaConv2d(std::shared_ptr<CudaScope> scope, AlgorithmChoice& choice, const Conv2dSpec& spec)
    : scope_(std::move(scope)),
      spec_(checked(spec)),
      algorithms_(choice.of(spec)),
      descriptors_(spec, scope_->precision()) {
  const auto prepare = [this](const auto& algorithm, const ConvolutionDescriptor& convolution) {
    check(cudnnSetConvolutionMathType(convolution.get(), algorithm.math), "cudnnSetConvolutionMathType");
    scope_->reserve(algorithm.workspace);
  };
  prepare(algorithms_.forward, descriptors_.forward);
  if (spec_.input_gradient) prepare(algorithms_.backward_data, descriptors_.backward_data);
  prepare(algorithms_.backward_weights, descriptors_.backward_weights);
  if (!is_half(scope_->precision())) return;
  weight_ = scope_->memory().allocate(floats_of(weight_size(), scope_->precision()));
  gradient_ = scope_->memory().allocate(weight_.size());
}

std::int64_t CudaConv2d::weight_size() const {
  return spec_.out_channels * spec_.input[1] / spec_.groups * spec_.kernel * spec_.kernel;
}

Values CudaConv2d::half_weight(Storage& storage) const {
  return {storage.span().address(), weight_size(), scope_->precision()};
}

const void* CudaConv2d::operand(DeviceSpan<const float> weight) const {
  return is_half(scope_->precision()) ? weight_.span().address() : weight.address();
}

/// The values of x as cuDNN takes them: a plain tensor of several channels is turned round first.
const void* CudaConv2d::nhwc(const Tensor& x) {
  if (x.layout() != nullptr || spec_.input[1] == 1 || spec_.input[2] * spec_.input[3] == 1)
    return x.span().address();
  if (nhwc_.size() == 0) nhwc_ = scope_->memory().allocate(floats_of(x.shape().size(), scope_->precision()));
  scope_->loops().to_nhwc(spec_.input, spec_.input[1], values_of(x, scope_->precision()),
                          {nhwc_.span().address(), spec_.input.size(), scope_->precision()});
  return nhwc_.span().address();
}

void CudaConv2d::forward(const Tensor& x, Weights w, Tensor& y) {
  check_image("x", x, spec_.input);
  check_image("y", y, output_shape());
  check_weights(spec_, weight_size(), w.weight.size(), w.bias.size());
  if (is_half(scope_->precision())) scope_->loops().cast(values_of(w.weight), half_weight(weight_), {});
  const auto& chosen = algorithms_.forward;
  check(cudnnConvolutionForward(scope_->cudnn(), &one, descriptors_.x.get(), nhwc(x),
                                descriptors_.weight.get(), operand(w.weight), descriptors_.forward.get(),
                                chosen.algorithm, scope_->workspace(), chosen.workspace, &zero,
                                descriptors_.y.get(), y.span().address()),
        "cudnnConvolutionForward");
  if (spec_.bias)
    scope_->loops().bias_activation(Activation::identity, spec_.out_channels, w.bias,
                                    values_of(y, scope_->precision()));
}

void CudaConv2d::backward_data(const Tensor& dy, Weights w, Tensor& dx) {
  require(spec_.input_gradient, "this convolution was made without a gradient of its input");
  check_image("dy", dy, output_shape());
  check_image("dx", dx, spec_.input);
  check_weights(spec_, weight_size(), w.weight.size(), w.bias.size());
  const auto& chosen = algorithms_.backward_data;
  check(cudnnConvolutionBackwardData(scope_->cudnn(), &one, descriptors_.weight.get(), operand(w.weight),
                                     descriptors_.y.get(), dy.span().address(),
                                     descriptors_.backward_data.get(), chosen.algorithm, scope_->workspace(),
                                     chosen.workspace, &zero, descriptors_.x.get(), dx.span().address()),
        "cudnnConvolutionBackwardData");
}

void CudaConv2d::backward_weights(const Tensor& x, const Tensor& dy, Gradients dw) {
  check_image("x", x, spec_.input);
  check_image("dy", dy, output_shape());
  check_weights(spec_, weight_size(), dw.weight.size(), dw.bias.size());
  const bool half = is_half(scope_->precision());
  const bool adds = spec_.accumulate && !half;  // Halves are added by the cast.
  const auto& chosen = algorithms_.backward_weights;
  check(cudnnConvolutionBackwardFilter(
            scope_->cudnn(), &one, descriptors_.x.get(), nhwc(x), descriptors_.y.get(), dy.span().address(),
            descriptors_.backward_weights.get(), chosen.algorithm, scope_->workspace(), chosen.workspace,
            adds ? &one : &zero, descriptors_.weight.get(),
            half ? gradient_.span().address() : dw.weight.address()),
        "cudnnConvolutionBackwardFilter");
  if (half) scope_->loops().cast(half_weight(gradient_), values_of(dw.weight), {.add = spec_.accumulate});
  if (!spec_.bias) return;
  // identity: dy stays as it is
  const Values values{const_cast<float*>(dy.span().address()), dy.shape().size(), scope_->precision()};
  scope_->loops().bias_activation_backward(Activation::identity, spec_.out_channels, {}, values, dw.bias,
                                           spec_.accumulate);
}

/// Calls body(place in the plain (O,I/groups,K,K) order, place in the arena's (O,K,K,I/groups)).
template <class Body>
void CudaConv2d::for_each_weight(const Body& body) const {
  const auto channels = static_cast<std::size_t>(spec_.input[1] / spec_.groups);
  const auto pixels = static_cast<std::size_t>(spec_.kernel * spec_.kernel);
  for (std::size_t o = 0; o < static_cast<std::size_t>(spec_.out_channels); ++o) {
    for (std::size_t i = 0; i < channels; ++i) {
      for (std::size_t p = 0; p < pixels; ++p)
        body((o * channels + i) * pixels + p, (o * pixels + p) * channels + i);
    }
  }
}

void CudaConv2d::weight_from_plain(std::span<const float> plain, std::span<float> stored) const {
  check_weight_copy(weight_size(), weight_size(), plain.size(), stored.size());
  for_each_weight([&](std::size_t there, std::size_t here) { stored[here] = plain[there]; });
}

void CudaConv2d::weight_to_plain(std::span<const float> stored, std::span<float> plain) const {
  check_weight_copy(weight_size(), weight_size(), plain.size(), stored.size());
  for_each_weight([&](std::size_t there, std::size_t here) { plain[there] = stored[here]; });
}

}  // namespace flotilla
