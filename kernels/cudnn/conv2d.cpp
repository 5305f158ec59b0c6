// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/conv2d.hpp"

#include <algorithm>
#include <utility>

#include "kernels/device_loops/loop_tensors.hpp"
#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

namespace {

const Conv2dSpec& checked(const Conv2dSpec& spec) {
  check_spec(spec);
  return spec;
}

/// Only where no gradient has to lose its zeros again.
std::int64_t filled_up(const Conv2dSpec& s, Precision precision) {
  constexpr std::int64_t at_a_time = 8;
  if (!is_half(precision) || s.input_gradient || s.groups > 1) return s.input[1];
  return (s.input[1] + at_a_time - 1) / at_a_time * at_a_time;
}

Conv2dSpec with_channels(Conv2dSpec spec, std::int64_t channels) {
  spec.input = {spec.input[0], channels, spec.input[2], spec.input[3]};
  return spec;
}

constexpr float one = 1.0F;
constexpr float zero = 0.0F;

}  // namespace

CudaConv2d::CudaConv2d(std::shared_ptr<CudaScope> scope, AlgorithmChoice& choice, const Conv2dSpec& spec)
    : scope_(std::move(scope)),
      spec_(checked(spec)),
      channels_(filled_up(spec, scope_->precision())),
      algorithms_(choice.of(with_channels(spec, channels_))),
      descriptors_(with_channels(spec, channels_), scope_->precision()),
      last_call_(scope_) {
  const auto prepare = [this](const auto& algorithm, const ConvolutionDescriptor& convolution) {
    check(cudnnSetConvolutionMathType(convolution.get(), algorithm.math), "cudnnSetConvolutionMathType");
    scope_->reserve(algorithm.workspace);
  };
  prepare(algorithms_.forward, descriptors_.forward);
  if (spec_.input_gradient) prepare(algorithms_.backward_data, descriptors_.backward_data);
  prepare(algorithms_.backward_weights, descriptors_.backward_weights);
  if (!is_half(scope_->precision())) return;
  const RowsSpec rows = channels_of_weight();
  gradient_ = scope_->memory().allocate(floats_of(rows.rows * rows.to, scope_->precision()));
  if (channels_ != spec_.input[1]) weight_ = scope_->memory().allocate(gradient_.size());
}

std::int64_t CudaConv2d::weight_size() const {
  return spec_.out_channels * spec_.input[1] / spec_.groups * spec_.kernel * spec_.kernel;
}

Shape CudaConv2d::input() const {
  return {spec_.input[0], channels_, spec_.input[2], spec_.input[3]};
}

RowsSpec CudaConv2d::channels_of_weight() const {
  return {.rows = spec_.out_channels * spec_.kernel * spec_.kernel,
          .from = spec_.input[1] / spec_.groups,
          .to = channels_ / spec_.groups};
}

Values CudaConv2d::half_weight(Storage& storage) const {
  const RowsSpec rows = channels_of_weight();
  return {storage.span().address(), rows.rows * rows.to, scope_->precision()};
}

void CudaConv2d::take_gradient(DeviceSpan<float> weight) {
  const CastSpec how{.add = spec_.accumulate};
  if (channels_ == spec_.input[1]) {
    scope_->passes().cast(half_weight(gradient_), values_of(weight), how);
  } else {
    const RowsSpec rows = channels_of_weight();
    scope_->passes().cast_rows({.rows = rows.rows, .from = rows.to, .to = rows.from}, half_weight(gradient_),
                               values_of(weight), how);
  }
}

const void* CudaConv2d::operand(const Weights& w) const {
  if (channels_ != spec_.input[1]) return weight_.span().address();
  return operand_of(w.weight, w.half_weight, scope_->precision());
}

std::shared_ptr<const Layout> CudaConv2d::batch_layout() const {
  if (channels_ == spec_.input[1]) return nullptr;
  return std::make_shared<FilledLayout>(channels_);
}

/// The values of x as cuDNN takes them: a plain tensor is laid out here.
const void* CudaConv2d::operand(const Tensor& x) {
  const bool as_taken = channels_ == spec_.input[1] ? is_nhwc(x) : stored_channels(x) == channels_;
  if (as_taken) return x.span().address();
  require(x.layout() == nullptr, "a batch of ", x.shape().text(), " must have the layout of batch_layout()");
  if (input_.size() == 0) input_ = scope_->memory().allocate(floats_of(input().size(), scope_->precision()));
  const Values made{input_.span().address(), input().size(), scope_->precision()};
  scope_->passes().to_nhwc(spec_.input, channels_, values_of(x, scope_->precision()), made);
  return made.address;
}

void CudaConv2d::forward(const Tensor& x, Weights w, Tensor& y) {
  check_image("x", x, spec_.input);
  check_image("y", y, output_shape());
  check_weights(spec_, weight_size(), w.weight.size(), w.bias.size());
  if (channels_ != spec_.input[1]) {
    const GivenValues halves{operand_of(w.weight, w.half_weight, scope_->precision()), weight_size(),
                             scope_->precision()};
    scope_->passes().cast_rows(channels_of_weight(), halves, half_weight(weight_), {});
  }
  scope_->hand_out<&CudaConv2d::convolve>(*this, operand(x), operand(w), y.span().address());
  if (spec_.bias)
    scope_->passes().bias_activation(Activation::identity, spec_.out_channels, w.bias,
                                     values_of(y, scope_->precision()));
}

void CudaConv2d::convolve(const void* x, const void* weight, void* y) {
  const auto& chosen = algorithms_.forward;
  check(cudnnConvolutionForward(scope_->cudnn(), &one, descriptors_.x.get(), x, descriptors_.weight.get(),
                                weight, descriptors_.forward.get(), chosen.algorithm, scope_->workspace(),
                                chosen.workspace, &zero, descriptors_.y.get(), y),
        "cudnnConvolutionForward");
}

void CudaConv2d::backward_data(const Tensor& dy, Weights w, Tensor& dx) {
  require(spec_.input_gradient, "this convolution was made without a gradient of its input");
  check_image("dy", dy, output_shape());
  check_image("dx", dx, spec_.input);
  check_weights(spec_, weight_size(), w.weight.size(), w.bias.size());
  scope_->hand_out<&CudaConv2d::convolve_back>(*this, dy.span().address(), operand(w), dx.span().address());
}

void CudaConv2d::convolve_back(const void* dy, const void* weight, void* dx) {
  const auto& chosen = algorithms_.backward_data;
  check(cudnnConvolutionBackwardData(scope_->cudnn(), &one, descriptors_.weight.get(), weight,
                                     descriptors_.y.get(), dy, descriptors_.backward_data.get(),
                                     chosen.algorithm, scope_->workspace(), chosen.workspace, &zero,
                                     descriptors_.x.get(), dx),
        "cudnnConvolutionBackwardData");
}

void CudaConv2d::backward_weights(const Tensor& x, const Tensor& dy, Gradients dw) {
  check_image("x", x, spec_.input);
  check_image("dy", dy, output_shape());
  check_weights(spec_, weight_size(), dw.weight.size(), dw.bias.size());
  const bool half = is_half(scope_->precision());
  const bool adds = spec_.accumulate && !half;  // Halves are added by the cast.
  scope_->hand_out<&CudaConv2d::convolve_for_weight>(*this, operand(x), dy.span().address(), adds,
                                                     half ? gradient_.span().address() : dw.weight.address());
  if (half) take_gradient(dw.weight);
  if (!spec_.bias) return;
  // identity: dy stays as it is
  const Values values{const_cast<StorageWord*>(dy.span().address()), dy.shape().size(), scope_->precision()};
  scope_->passes().bias_activation_backward(Activation::identity, spec_.out_channels, {}, values, dw.bias,
                                            spec_.accumulate);
}

void CudaConv2d::convolve_for_weight(const void* x, const void* dy, bool adds, void* dw) {
  const auto& chosen = algorithms_.backward_weights;
  check(cudnnConvolutionBackwardFilter(scope_->cudnn(), &one, descriptors_.x.get(), x, descriptors_.y.get(),
                                       dy, descriptors_.backward_weights.get(), chosen.algorithm,
                                       scope_->workspace(), chosen.workspace, adds ? &one : &zero,
                                       descriptors_.weight.get(), dw),
        "cudnnConvolutionBackwardFilter");
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
