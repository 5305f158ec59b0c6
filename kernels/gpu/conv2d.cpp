// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/conv2d.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/gpu/loops/loop_tensors.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

namespace {

const Conv2dSpec& checked(const Conv2dSpec& spec) {
  check_spec(spec);
  return spec;
}

/// The input gets another form only where no gradient has to lose it again.
ComputedConv2d computed_by_cudnn(const Conv2dSpec& s, Precision precision) {
  ComputedConv2d made{s, {.channels = s.input[1]}};
  if (!is_half(precision) || s.input_gradient || s.groups > 1) return made;
  if (precision == Precision::bfloat16 && s.input[1] <= folded_channels && s.stride == 2 && s.kernel >= 5) {
    const Shape y = output_shape(s);
    const std::int64_t kernel = (s.kernel + 1) / 2;
    made.form = {4 * folded_channels, y[2] + kernel - 1, y[3] + kernel - 1, s.padding};
    made.spec.input = {s.input[0], made.form.channels, made.form.rows, made.form.columns};
    made.spec.kernel = kernel;
    made.spec.stride = 1;
    made.spec.padding = 0;
    return made;
  }
  // On an H200, cuDNN 9.19 computes ResNet's first convolution in float16 in 0.82 ms with 4 channels, 2.14 ms
  // with 8, forward and gradient of the weight together at batch 256.
  const std::int64_t at_a_time = precision == Precision::float16 && s.input[1] <= 4 ? 4 : 8;
  made.form.channels = (s.input[1] + at_a_time - 1) / at_a_time * at_a_time;
  made.spec.input = {s.input[0], made.form.channels, s.input[2], s.input[3]};
  return made;
}

std::int64_t weights_of(const Conv2dSpec& s) {
  return s.out_channels * s.input[1] / s.groups * s.kernel * s.kernel;
}

/// For each value of cuDNN's weight its place in the arena's, which has no groups; −1: it is zero.
std::vector<std::int32_t> places_of_weight(const Conv2dSpec& s, const ComputedConv2d& computed) {
  const std::int64_t block = computed.form.folded() ? 2 : 1;
  const std::int64_t channels = computed.form.channels / (block * block);
  std::vector<std::int32_t> places;
  places.reserve(static_cast<std::size_t>(weights_of(computed.spec)));
  for (std::int64_t o = 0; o < s.out_channels; ++o)
    for (std::int64_t r = 0; r < computed.spec.kernel; ++r)
      for (std::int64_t c = 0; c < computed.spec.kernel; ++c)
        for (std::int64_t i = 0; i < computed.form.channels; ++i) {
          const std::int64_t row = r * block + i / channels / block;
          const std::int64_t column = c * block + i / channels % block;
          const std::int64_t channel = i % channels;
          const bool there = row < s.kernel && column < s.kernel && channel < s.input[1];
          const std::int64_t place = ((o * s.kernel + row) * s.kernel + column) * s.input[1] + channel;
          places.push_back(there ? static_cast<std::int32_t>(place) : -1);
        }
  return places;
}

constexpr float one = 1.0F;
constexpr float zero = 0.0F;

}  // namespace

CudaConv2d::CudaConv2d(std::shared_ptr<CudaScope> scope, AlgorithmChoice& choice, const Conv2dSpec& spec)
    : scope_(std::move(scope)),
      spec_(checked(spec)),
      computed_(computed_by_cudnn(spec, scope_->precision())),
      algorithms_(choice.of(computed_.spec)),
      descriptors_(computed_.spec, scope_->precision()),
      last_call_(scope_) {
  const auto prepare = [this](const auto& algorithm, const ConvolutionDescriptor& convolution) {
    check(cudnnSetConvolutionMathType(convolution.get(), algorithm.math), "cudnnSetConvolutionMathType");
    scope_->reserve(algorithm.workspace);
  };
  prepare(algorithms_.forward, descriptors_.forward);
  if (spec_.input_gradient) prepare(algorithms_.backward_data, descriptors_.backward_data);
  prepare(algorithms_.backward_weights, descriptors_.backward_weights);
  if (!is_half(scope_->precision())) return;
  gradient_ = scope_->memory().allocate(floats_of(weights_of(computed_.spec), scope_->precision()));
  if (changes_weight()) upload_places();
}

void CudaConv2d::upload_places() {
  weight_ = scope_->memory().allocate(gradient_.size());
  std::vector<std::int32_t> places = places_of_weight(spec_, computed_);
  const std::size_t forth = places.size();
  places.resize(forth + static_cast<std::size_t>(weight_size()));
  for (std::size_t i = 0; i < forth; ++i)
    if (places[i] >= 0) places[forth + static_cast<std::size_t>(places[i])] = static_cast<std::int32_t>(i);
  std::vector<float> words;
  words.reserve(places.size());
  for (const std::int32_t place : places) words.push_back(std::bit_cast<float>(place));
  places_ = scope_->memory().allocate(words.size());
  scope_->uploads().copy(words, places_.span());
}

std::int64_t CudaConv2d::weight_size() const {
  return weights_of(spec_);
}

Values CudaConv2d::half_weight(Storage& storage) const {
  return {storage.span().address(), weights_of(computed_.spec), scope_->precision()};
}

void CudaConv2d::take_gradient(DeviceSpan<float> weight) {
  const CastSpec how{.add = spec_.accumulate};
  if (changes_weight()) {
    scope_->passes().gather(places(weights_of(computed_.spec), weight_size()), half_weight(gradient_),
                            values_of(weight), how);
  } else {
    scope_->passes().cast(half_weight(gradient_), values_of(weight), how);
  }
}

DeviceSpan<const std::int32_t> CudaConv2d::places(std::int64_t first, std::int64_t count) const {
  return {reinterpret_cast<const std::int32_t*>(places_.span().address()) + first,
          static_cast<std::size_t>(count)};
}

const void* CudaConv2d::operand(const Weights& w) const {
  if (changes_weight()) return weight_.span().address();
  return operand_of(w.weight, w.half_weight, scope_->precision());
}

std::shared_ptr<const Layout> CudaConv2d::batch_layout() const {
  return changes_weight() ? std::make_shared<StagedLayout>(computed_.form) : nullptr;
}

/// The values of x as cuDNN takes them: a plain tensor is laid out here.
const void* CudaConv2d::operand(const Tensor& x) {
  const bool as_taken = changes_weight() ? stored_form(x) == computed_.form : is_nhwc(x);
  const std::int64_t size = computed_.spec.input.size();
  check_shape("x", x, spec_.input);
  require(!as_taken || x.span().size() >= floats_of(size, scope_->precision()), "x must hold ", size,
          " values");
  if (as_taken) return x.span().address();
  require(x.layout() == nullptr, "a batch of ", x.shape().text(), " must have the layout of batch_layout()");
  if (input_.size() == 0) input_ = scope_->memory().allocate(floats_of(size, scope_->precision()));
  const Values made{input_.span().address(), size, scope_->precision()};
  scope_->passes().to_nhwc(spec_.input, computed_.form, values_of(x, scope_->precision()), made);
  return made.address;
}

void CudaConv2d::forward(const Tensor& x, Weights w, Tensor& y) {
  check_image("y", y, output_shape());
  check_weights(spec_, weight_size(), w.weight.size(), w.bias.size());
  if (changes_weight()) {
    const GivenValues halves{operand_of(w.weight, w.half_weight, scope_->precision()), weight_size(),
                             scope_->precision()};
    scope_->passes().gather(places(0, weights_of(computed_.spec)), halves, half_weight(weight_), {});
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
