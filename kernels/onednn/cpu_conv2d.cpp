// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/cpu_conv2d.hpp"

#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/onednn/descriptors.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

namespace {

using Tag = dnnl::memory::format_tag;
constexpr auto floats = dnnl::memory::data_type::f32;

const Conv2dSpec& checked(const Conv2dSpec& spec) {
  check_spec(spec);
  return spec;
}

dnnl::memory::dims weight_dims(const Conv2dSpec& s) {
  if (s.groups == 1) return {s.out_channels, s.input[1], s.kernel, s.kernel};
  return {s.groups, s.out_channels / s.groups, s.input[1] / s.groups, s.kernel, s.kernel};
}

std::int64_t plain_size(const Conv2dSpec& s) {
  return s.out_channels * s.input[1] / s.groups * s.kernel * s.kernel;
}

}  // namespace

CpuConv2d::CpuConv2d(std::shared_ptr<PrimitiveScope> scope, const ImageLayouts& layouts,
                     const Conv2dSpec& spec)
    : scope_(std::move(scope)),
      spec_(checked(spec)),
      source_(layouts.of(spec.input)),
      destination_(layouts.of(flotilla::output_shape(spec))),
      plain_weight_(weight_dims(spec), floats, spec.groups == 1 ? Tag::oihw : Tag::goihw) {
  scope_->set_threads();
  made("the primitives of a convolution", [this] { make_operations(); });
}

void CpuConv2d::make_operations() {
  const auto any = [](const dnnl::memory::dims& dims) { return dnnl::memory::desc(dims, floats, Tag::any); };
  const dnnl::memory::desc source = described(spec_.input, source_.tag);
  const dnnl::memory::desc destination = described(output_shape(), destination_.tag);
  const dnnl::memory::desc bias =
      spec_.bias ? dnnl::memory::desc({spec_.out_channels}, floats, Tag::x) : dnnl::memory::desc();
  const Shape output = output_shape();
  const descriptors::Convolution free{any({spec_.input[0], spec_.input[1], spec_.input[2], spec_.input[3]}),
                                      any(weight_dims(spec_)),
                                      bias,
                                      any({output[0], output[1], output[2], output[3]}),
                                      {spec_.stride, spec_.stride},
                                      {spec_.padding, spec_.padding}};

  const auto forward = descriptors::forward(scope_->engine(), free);
  weight_ = forward.weights_desc();
  std::vector<Argument> operands = {{DNNL_ARG_SRC, source, forward.src_desc()},
                                    {DNNL_ARG_WEIGHTS, weight_, weight_},
                                    {DNNL_ARG_DST, destination, forward.dst_desc(), Flow::out}};
  if (spec_.bias) operands.push_back({DNNL_ARG_BIAS, bias, bias});
  forward_ = Operation(scope_, dnnl::convolution_forward(forward), forward.scratchpad_desc(), operands);

  const Flow gradients = spec_.accumulate ? Flow::add : Flow::out;
  const auto weights = descriptors::backward_weights(scope_->engine(), free, forward);
  operands = {{DNNL_ARG_SRC, source, weights.src_desc()},
              {DNNL_ARG_DIFF_DST, destination, weights.diff_dst_desc()},
              {DNNL_ARG_DIFF_WEIGHTS, weight_, weights.diff_weights_desc(), gradients}};
  if (spec_.bias) operands.push_back({DNNL_ARG_DIFF_BIAS, bias, bias, gradients});
  backward_weights_ =
      Operation(scope_, dnnl::convolution_backward_weights(weights), weights.scratchpad_desc(), operands);

  if (!spec_.input_gradient) return;
  const auto data = descriptors::backward_data(scope_->engine(), free, forward);
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
  const float* const source = x.span().address();
  if (spec_.bias) {
    forward_.run({source, w.weight.address(), y.span().address(), w.bias.address()});
  } else {
    forward_.run({source, w.weight.address(), y.span().address()});
  }
}

void CpuConv2d::backward_data(const Tensor& dy, Weights w, Tensor& dx) {
  require(backward_data_.made(), "this convolution was made without backward_data");
  check_image("dy", dy, output_shape(), destination_);
  check_image("dx", dx, spec_.input, source_);
  check_weights(spec_, weight_size(), w.weight.size(), w.bias.size());
  backward_data_.run({dy.span().address(), w.weight.address(), dx.span().address()});
}

void CpuConv2d::backward_weights(const Tensor& x, const Tensor& dy, Gradients dw) {
  check_image("x", x, spec_.input, source_);
  check_image("dy", dy, output_shape(), destination_);
  check_weights(spec_, weight_size(), dw.weight.size(), dw.bias.size());
  const float* const source = x.span().address();
  if (spec_.bias) {
    backward_weights_.run({source, dy.span().address(), dw.weight.address(), dw.bias.address()});
  } else {
    backward_weights_.run({source, dy.span().address(), dw.weight.address()});
  }
}

void CpuConv2d::weight_from_plain(std::span<const float> plain, std::span<float> stored) const {
  check_weight_copy(plain_size(spec_), weight_size(), plain.size(), stored.size());
  copy_weight(plain_weight_, plain.data(), weight_, stored.data());
}

void CpuConv2d::weight_to_plain(std::span<const float> stored, std::span<float> plain) const {
  check_weight_copy(plain_size(spec_), weight_size(), plain.size(), stored.size());
  copy_weight(weight_, stored.data(), plain_weight_, plain.data());
}

void CpuConv2d::copy_weight(const dnnl::memory::desc& from_layout, const float* from,
                            const dnnl::memory::desc& to_layout, float* to) const {
  scope_->set_threads();
  made("a reorder of weights", [&] {
    // Made for the call: weights are loaded and saved, not more. The library takes inputs as void*, too.
    dnnl::memory source(from_layout, scope_->engine(), const_cast<float*>(from));
    dnnl::memory destination(to_layout, scope_->engine(), to);
    dnnl::stream stream = scope_->stream();
    dnnl::reorder(source, destination).execute(stream, source, destination);
    stream.wait();
  });
}

}  // namespace flotilla
