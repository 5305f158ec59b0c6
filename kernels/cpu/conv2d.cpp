// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/conv2d.hpp"

#include <algorithm>
#include <optional>

#include "kernels/cpu/descriptors.hpp"
#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

namespace {

using Tag = dnnl::memory::format_tag;
constexpr auto floats = dnnl::memory::data_type::f32;

}  // namespace

const Conv2dSpec& checked(const Conv2dSpec& spec) {
  check_spec(spec);
  return spec;
}

dnnl::memory::dims weight_dims(const Conv2dSpec& s) {
  if (s.groups == 1) return {s.out_channels, s.input[1], s.kernel, s.kernel};
  return {s.groups, s.out_channels / s.groups, s.input[1] / s.groups, s.kernel, s.kernel};
}

dnnl::memory::desc plain_weight(const Conv2dSpec& s) {
  return {weight_dims(s), floats, s.groups == 1 ? Tag::oihw : Tag::goihw};
}

std::int64_t plain_size(const Conv2dSpec& s) {
  return s.out_channels * s.input[1] / s.groups * s.kernel * s.kernel;
}

void copy_weight(const PrimitiveScope& scope, const dnnl::memory::desc& from_layout,
                 std::span<const float> from, const dnnl::memory::desc& to_layout, std::span<float> to) {
  scope.set_threads();
  made("a reorder of weights", [&] {
    // The library takes inputs as void*, too.
    dnnl::memory source(from_layout, scope.engine(), const_cast<float*>(from.data()));
    dnnl::memory destination(to_layout, scope.engine(), to.data());
    dnnl::stream stream = scope.stream();
    dnnl::reorder(source, destination).execute(stream, source, destination);
    stream.wait();
  });
}

CpuConv2d::CpuConv2d(std::shared_ptr<PrimitiveScope> scope, const ImageLayouts& layouts, WinogradUse winograd,
                     const Conv2dSpec& spec)
    : scope_(std::move(scope)),
      spec_(checked(spec)),
      source_(layouts.of(spec.input)),
      destination_(layouts.of(flotilla::output_shape(spec))) {
  scope_->set_threads();
  if (winograd != WinogradUse::never && WinogradConv2d::applies(spec_, source_, destination_))
    winograd_.emplace(scope_, spec_, source_.lanes);
  made("the primitives of a convolution", [&] { make_operations(winograd); });
}

bool CpuConv2d::takes_winograd(ConvolutionPass pass, WinogradUse use) const {
  if (!winograd_ || (pass == ConvolutionPass::backward_data && !spec_.input_gradient)) return false;
  return use == WinogradUse::wherever_possible || WinogradConv2d::pays(spec_, pass, source_.lanes);
}

int CpuConv2d::winograd_passes(WinogradUse use) const {
  int passes = 0;
  for (const ConvolutionPass pass :
       {ConvolutionPass::forward, ConvolutionPass::backward_data, ConvolutionPass::backward_weights})
    passes += takes_winograd(pass, use) ? 1 : 0;
  return passes;
}

void CpuConv2d::make_operations(WinogradUse use) {
  const auto any = [](const dnnl::memory::dims& dims) { return dnnl::memory::desc(dims, floats, Tag::any); };
  const dnnl::memory::desc source = described(spec_.input, source_.tag, floats);
  const dnnl::memory::desc destination = described(output_shape(), destination_.tag, floats);
  const dnnl::memory::desc bias =
      spec_.bias ? dnnl::memory::desc({spec_.out_channels}, floats, Tag::x) : dnnl::memory::desc();
  const Shape output = output_shape();
  const descriptors::Convolution free{any({spec_.input[0], spec_.input[1], spec_.input[2], spec_.input[3]}),
                                      any(weight_dims(spec_)),
                                      bias,
                                      any({output[0], output[1], output[2], output[3]}),
                                      {spec_.stride, spec_.stride},
                                      {spec_.padding, spec_.padding}};
  const dnnl::engine& engine = scope_->engine();
  const auto forward = descriptors::forward(engine, free);
  weight_ = winograd_ ? WinogradConv2d::weights(spec_, source_.lanes) : forward.weights_desc();

  std::vector<Argument> operands;
  if (!takes_winograd(ConvolutionPass::forward, use)) {
    operands = {{DNNL_ARG_SRC, source, forward.src_desc()},
                {DNNL_ARG_WEIGHTS, weight_, forward.weights_desc()},
                {DNNL_ARG_DST, destination, forward.dst_desc(), Flow::out}};
    if (spec_.bias) operands.push_back({DNNL_ARG_BIAS, bias, bias});
    forward_ = Operation(scope_, dnnl::convolution_forward(forward), forward.scratchpad_desc(), operands);
  }

  if (!takes_winograd(ConvolutionPass::backward_weights, use)) {
    const Flow gradients = spec_.accumulate ? Flow::add : Flow::out;
    const auto weights = descriptors::backward_weights(engine, free, forward);
    operands = {{DNNL_ARG_SRC, source, weights.src_desc()},
                {DNNL_ARG_DIFF_DST, destination, weights.diff_dst_desc()},
                {DNNL_ARG_DIFF_WEIGHTS, weight_, weights.diff_weights_desc(), gradients}};
    if (spec_.bias) operands.push_back({DNNL_ARG_DIFF_BIAS, bias, bias, gradients});
    backward_weights_ =
        Operation(scope_, dnnl::convolution_backward_weights(weights), weights.scratchpad_desc(), operands);
  }

  if (!spec_.input_gradient || takes_winograd(ConvolutionPass::backward_data, use)) return;
  const auto data = descriptors::backward_data(engine, free, forward);
  backward_data_ = Operation(scope_, dnnl::convolution_backward_data(data), data.scratchpad_desc(),
                             {{DNNL_ARG_DIFF_DST, destination, data.diff_dst_desc()},
                              {DNNL_ARG_WEIGHTS, weight_, data.weights_desc()},
                              {DNNL_ARG_DIFF_SRC, source, data.diff_src_desc(), Flow::out}});
}

std::int64_t CpuConv2d::weight_size() const {
  return static_cast<std::int64_t>(weight_.get_size() / sizeof(float));
}

void CpuConv2d::forward(const Tensor& x, Weights w, Tensor& y) {
  check_image("x", x, spec_.input, source_);
  check_image("y", y, output_shape(), destination_);
  check_weights(spec_, weight_size(), w.weight.size(), w.bias.size());
  const float* const source = float_values(x).address();
  if (!forward_.made()) {
    winograd_->forward(source, w.weight.address(), spec_.bias ? w.bias.address() : nullptr,
                       float_values(y).address());
  } else if (spec_.bias) {
    forward_.run({source, w.weight.address(), float_values(y).address(), w.bias.address()});
  } else {
    forward_.run({source, w.weight.address(), float_values(y).address()});
  }
}

void CpuConv2d::backward_data(const Tensor& dy, Weights w, Tensor& dx) {
  require(spec_.input_gradient, "this convolution was made without backward_data");
  check_image("dy", dy, output_shape(), destination_);
  check_image("dx", dx, spec_.input, source_);
  check_weights(spec_, weight_size(), w.weight.size(), w.bias.size());
  if (backward_data_.made()) {
    backward_data_.run({float_values(dy).address(), w.weight.address(), float_values(dx).address()});
  } else {
    winograd_->backward_data(float_values(dy).address(), w.weight.address(), float_values(dx).address());
  }
}

void CpuConv2d::backward_weights(const Tensor& x, const Tensor& dy, Gradients dw) {
  check_image("x", x, spec_.input, source_);
  check_image("dy", dy, output_shape(), destination_);
  check_weights(spec_, weight_size(), dw.weight.size(), dw.bias.size());
  const float* const source = float_values(x).address();
  if (!backward_weights_.made()) {
    winograd_->backward_weights(source, float_values(dy).address(), dw.weight.address(),
                                spec_.bias ? dw.bias.address() : nullptr);
  } else if (spec_.bias) {
    backward_weights_.run({source, float_values(dy).address(), dw.weight.address(), dw.bias.address()});
  } else {
    backward_weights_.run({source, float_values(dy).address(), dw.weight.address()});
  }
}

void CpuConv2d::weight_from_plain(std::span<const float> plain, std::span<float> stored) const {
  check_weight_copy(plain_size(spec_), weight_size(), plain.size(), stored.size());
  copy_weight(*scope_, plain_weight(spec_), plain, weight_, stored);
}

void CpuConv2d::weight_to_plain(std::span<const float> stored, std::span<float> plain) const {
  check_weight_copy(plain_size(spec_), weight_size(), plain.size(), stored.size());
  copy_weight(*scope_, weight_, stored, plain_weight(spec_), plain);
}

}  // namespace flotilla
