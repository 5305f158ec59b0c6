// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/descriptors.hpp"

namespace flotilla::descriptors {

namespace {

dnnl::primitive_attr own_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::primitive_attr product_attributes(const Product& of) {
  dnnl::primitive_attr attributes = own_scratchpad();
  if (!of.add) return attributes;
  dnnl::post_ops after;
  after.append_sum(1.0F);
  attributes.set_post_ops(after);
  return attributes;
}

}  // namespace

// The descriptors without bias are those of constructors without one.
dnnl::convolution_forward::primitive_desc forward(const dnnl::engine& engine, const Convolution& of) {
  using Operation = dnnl::convolution_forward;
  const auto kind = dnnl::prop_kind::forward_training;
  const Operation::desc description =
      of.bias.dims().empty() ? Operation::desc(kind, of.algorithm, of.source, of.weights, of.destination,
                                               of.strides, of.padding, of.padding)
                             : Operation::desc(kind, of.algorithm, of.source, of.weights, of.bias,
                                               of.destination, of.strides, of.padding, of.padding);
  return {description, own_scratchpad(), engine};
}

dnnl::convolution_backward_data::primitive_desc backward_data(
    const dnnl::engine& engine, const Convolution& of,
    const dnnl::convolution_forward::primitive_desc& forward) {
  return {{of.algorithm, of.source, of.weights, of.destination, of.strides, of.padding, of.padding},
          own_scratchpad(),
          engine,
          forward};
}

dnnl::convolution_backward_weights::primitive_desc backward_weights(
    const dnnl::engine& engine, const Convolution& of,
    const dnnl::convolution_forward::primitive_desc& forward) {
  using Operation = dnnl::convolution_backward_weights;
  const Operation::desc description =
      of.bias.dims().empty() ? Operation::desc(of.algorithm, of.source, of.weights, of.destination,
                                               of.strides, of.padding, of.padding)
                             : Operation::desc(of.algorithm, of.source, of.weights, of.bias, of.destination,
                                               of.strides, of.padding, of.padding);
  return {description, own_scratchpad(), engine, forward};
}

dnnl::pooling_forward::primitive_desc forward(const dnnl::engine& engine, const Pooling& of) {
  return {{dnnl::prop_kind::forward_training, of.algorithm, of.source, of.destination, of.strides, of.kernel,
           of.padding, of.padding},
          own_scratchpad(),
          engine};
}

dnnl::pooling_backward::primitive_desc backward(const dnnl::engine& engine, const Pooling& of,
                                                const dnnl::pooling_forward::primitive_desc& forward) {
  return {{of.algorithm, of.source, of.destination, of.strides, of.kernel, of.padding, of.padding},
          own_scratchpad(),
          engine,
          forward};
}

dnnl::matmul::primitive_desc product(const dnnl::engine& engine, const Product& of) {
  return {dnnl::matmul::desc(of.source, of.weights, of.destination), product_attributes(of), engine};
}

}  // namespace flotilla::descriptors
