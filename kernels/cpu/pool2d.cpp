// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/pool2d.hpp"

#include "kernels/bfloat16_values.hpp"
#include "kernels/cpu/descriptors.hpp"
#include "kernels/cpu/image_passes.hpp"
#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"

namespace flotilla {

namespace {

const Pool2dSpec& checked(const Pool2dSpec& spec) {
  check_spec(spec);
  return spec;
}

dnnl::algorithm algorithm_of(Pooling kind) {
  switch (kind) {
    case Pooling::max: return dnnl::algorithm::pooling_max;
    case Pooling::average_including_padding: return dnnl::algorithm::pooling_avg_include_padding;
    case Pooling::average_excluding_padding: return dnnl::algorithm::pooling_avg_exclude_padding;
    case Pooling::global_average: break;
  }
  throw InternalError("the global average is not a pooling primitive");
}

}  // namespace

CpuPool2d::CpuPool2d(std::shared_ptr<PrimitiveScope> scope, const ImageLayouts& layouts,
                     const Pool2dSpec& spec)
    : scope_(std::move(scope)),
      spec_(checked(spec)),
      source_(layouts.of(spec.input)),
      destination_(layouts.of(flotilla::output_shape(spec))) {
  scope_->set_threads();
  made("the primitives of a pooling layer", [this] { make_operations(); });
}

void CpuPool2d::make_operations() {
  constexpr auto type = dnnl::memory::data_type::f32;
  // A single pixel is the same in every layout, so y may be described as the primitive prefers.
  const descriptors::Pooling pooling{algorithm_of(spec_.kind),
                                     described(spec_.input, source_.tag, type),
                                     described(output_shape(), source_.tag, type),
                                     {spec_.stride, spec_.stride},
                                     {spec_.kernel, spec_.kernel},
                                     {spec_.padding, spec_.padding}};
  const auto forward = descriptors::forward(scope_->engine(), pooling);
  const auto backward = descriptors::backward(scope_->engine(), pooling, forward);
  std::vector<Argument> forward_operands = {
      {DNNL_ARG_SRC, pooling.source, forward.src_desc()},
      {DNNL_ARG_DST, pooling.destination, forward.dst_desc(), Flow::out}};
  std::vector<Argument> backward_operands = {
      {DNNL_ARG_DIFF_DST, pooling.destination, backward.diff_dst_desc()},
      {DNNL_ARG_DIFF_SRC, pooling.source, backward.diff_src_desc(), Flow::out}};
  if (spec_.kind == Pooling::max) {
    const dnnl::memory::desc workspace = forward.workspace_desc();
    workspace_ = scope_->memory().allocate((workspace.get_size() + sizeof(float) - 1) / sizeof(float));
    forward_operands.push_back({DNNL_ARG_WORKSPACE, workspace, workspace, Flow::out});
    backward_operands.push_back({DNNL_ARG_WORKSPACE, workspace, workspace});
  }
  forward_ = Operation(scope_, dnnl::pooling_forward(forward), forward.scratchpad_desc(), forward_operands);
  backward_ =
      Operation(scope_, dnnl::pooling_backward(backward), backward.scratchpad_desc(), backward_operands);
}

void CpuPool2d::forward(const Tensor& x, Tensor& y) {
  check_image("x", x, spec_.input, source_);
  check_image("y", y, output_shape(), destination_);
  if (spec_.kind == Pooling::max) {
    forward_.run({x.span().address(), y.span().address(), workspace_.span().address()});
  } else {
    forward_.run({x.span().address(), y.span().address()});
  }
}

void CpuPool2d::backward(const Tensor& dy, Tensor& dx) {
  check_image("dy", dy, output_shape(), destination_);
  check_image("dx", dx, spec_.input, source_);
  if (spec_.kind == Pooling::max) {
    backward_.run({dy.span().address(), dx.span().address(), workspace_.span().address()});
  } else {
    backward_.run({dy.span().address(), dx.span().address()});
  }
}

template <class T>
CpuGlobalAverage<T>::CpuGlobalAverage(int threads, const ImageLayouts& layouts, const Pool2dSpec& spec)
    : threads_(threads),
      spec_(checked(spec)),
      source_(layouts.of(spec.input)),
      destination_(layouts.of(flotilla::output_shape(spec))) {}

template <class T>
void CpuGlobalAverage<T>::forward(const Tensor& x, Tensor& y) {
  check_image("x", x, spec_.input, source_);
  check_image("y", y, output_shape(), destination_);
  average_pixels(threads_, source_, values_as<T>(x).address(), values_as<T>(y).address());
}

template <class T>
void CpuGlobalAverage<T>::backward(const Tensor& dy, Tensor& dx) {
  check_image("dy", dy, output_shape(), destination_);
  check_image("dx", dx, spec_.input, source_);
  spread_over_pixels(threads_, source_, values_as<T>(dy).address(), values_as<T>(dx).address());
}

template class CpuGlobalAverage<float>;
template class CpuGlobalAverage<Bfloat16>;

}  // namespace flotilla
