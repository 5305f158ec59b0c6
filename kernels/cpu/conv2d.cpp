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

/// An algorithm: its kind, and its forward convolution, which the backward ones take as a hint.
struct Way {
  descriptors::Convolution of;
  dnnl::convolution_forward::primitive_desc forward;
};

/// Rows and columns of an output from which Winograd's tiles of 4x4 pay forward and in backward_data: 512
/// channels of 7x7 took 0.92 of the direct time, of 4x4 1.14 (weights' gradients 0.52 at both; Zen 4).
constexpr std::int64_t smallest_winograd_image = 6;

/// The result of `make`, none if the library has no such primitive.
template <class Make>
auto if_implemented(const Make& make) -> std::optional<decltype(make())> {
  try {
    return make();
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
    return std::nullopt;
  }
}

/// None unless the channels fill whole blocks: with 3 channels oneDNN 2.6 also adds up what lies in the
/// padding after them.
std::optional<Way> winograd_way(const dnnl::engine& engine, const Conv2dSpec& spec,
                                descriptors::Convolution of) {
  constexpr std::int64_t block = 16;
  if (spec.input[1] % block != 0 || spec.out_channels % block != 0) return std::nullopt;
  of.algorithm = dnnl::algorithm::convolution_winograd;
  return if_implemented([&] { return Way{of, descriptors::forward(engine, of)}; });
}

/// describe(*fast) if there is one and the library has it, else describe(direct).
template <class Describe>
auto described_by(const Way* fast, const Way& direct, const Describe& describe) {
  if (fast != nullptr) {
    if (auto description = if_implemented([&] { return describe(*fast); })) return *description;
  }
  return describe(direct);
}

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

bool has_winograd() {
  return made("the description of a convolution", [] {
    const Conv2dSpec spec{.input = {8, 64, 28, 28}, .out_channels = 64, .kernel = 3, .padding = 1};
    const dnnl::memory::desc image({8, 64, 28, 28}, floats, Tag::any);
    const dnnl::memory::desc weights(weight_dims(spec), floats, Tag::any);
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    return winograd_way(engine, spec, {image, weights, {}, image, {1, 1}, {1, 1}}).has_value();
  });
}

CpuConv2d::CpuConv2d(std::shared_ptr<PrimitiveScope> scope, const ImageLayouts& layouts, bool winograd,
                     const Conv2dSpec& spec)
    : scope_(std::move(scope)),
      spec_(checked(spec)),
      source_(layouts.of(spec.input)),
      destination_(layouts.of(flotilla::output_shape(spec))) {
  scope_->set_threads();
  made("the primitives of a convolution", [&] { make_operations(winograd); });
}

void CpuConv2d::make_operations(bool winograd) {
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
  const Way direct{free, descriptors::forward(engine, free)};
  const std::optional<Way> fast = winograd ? winograd_way(engine, spec_, free) : std::nullopt;
  const bool fast_on_images = fast && std::min(output[2], output[3]) >= smallest_winograd_image;
  weight_ = direct.forward.weights_desc();

  const auto& forward = fast_on_images ? fast->forward : direct.forward;
  std::vector<Argument> operands = {{DNNL_ARG_SRC, source, forward.src_desc()},
                                    {DNNL_ARG_WEIGHTS, weight_, forward.weights_desc()},
                                    {DNNL_ARG_DST, destination, forward.dst_desc(), Flow::out}};
  if (spec_.bias) operands.push_back({DNNL_ARG_BIAS, bias, bias});
  forward_ = Operation(scope_, dnnl::convolution_forward(forward), forward.scratchpad_desc(), operands);

  const Flow gradients = spec_.accumulate ? Flow::add : Flow::out;
  const auto weights = described_by(fast ? &*fast : nullptr, direct, [&](const Way& way) {
    return descriptors::backward_weights(engine, way.of, way.forward);
  });
  operands = {{DNNL_ARG_SRC, source, weights.src_desc()},
              {DNNL_ARG_DIFF_DST, destination, weights.diff_dst_desc()},
              {DNNL_ARG_DIFF_WEIGHTS, weight_, weights.diff_weights_desc(), gradients}};
  if (spec_.bias) operands.push_back({DNNL_ARG_DIFF_BIAS, bias, bias, gradients});
  backward_weights_ =
      Operation(scope_, dnnl::convolution_backward_weights(weights), weights.scratchpad_desc(), operands);

  if (!spec_.input_gradient) return;
  const auto data = described_by(fast_on_images ? &*fast : nullptr, direct, [&](const Way& way) {
    return descriptors::backward_data(engine, way.of, way.forward);
  });
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
  if (spec_.bias) {
    forward_.run({source, w.weight.address(), float_values(y).address(), w.bias.address()});
  } else {
    forward_.run({source, w.weight.address(), float_values(y).address()});
  }
}

void CpuConv2d::backward_data(const Tensor& dy, Weights w, Tensor& dx) {
  require(backward_data_.made(), "this convolution was made without backward_data");
  check_image("dy", dy, output_shape(), destination_);
  check_image("dx", dx, spec_.input, source_);
  check_weights(spec_, weight_size(), w.weight.size(), w.bias.size());
  backward_data_.run({float_values(dy).address(), w.weight.address(), float_values(dx).address()});
}

void CpuConv2d::backward_weights(const Tensor& x, const Tensor& dy, Gradients dw) {
  check_image("x", x, spec_.input, source_);
  check_image("dy", dy, output_shape(), destination_);
  check_weights(spec_, weight_size(), dw.weight.size(), dw.bias.size());
  const float* const source = float_values(x).address();
  if (spec_.bias) {
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
