// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

/// The descriptors that differ between oneDNN 2 and 3; implemented in v2/ and v3/, of which CMake takes one.
/// Scratchpads are the caller's. They throw dnnl::error.
namespace flotilla::descriptors {

struct Convolution {
  dnnl::memory::desc source, weights, bias, destination;  ///< bias of no dimensions: none
  dnnl::memory::dims strides, padding;
  dnnl::algorithm algorithm = dnnl::algorithm::convolution_direct;
};

dnnl::convolution_forward::primitive_desc forward(const dnnl::engine& engine, const Convolution& of);
dnnl::convolution_backward_data::primitive_desc backward_data(
    const dnnl::engine& engine, const Convolution& of,
    const dnnl::convolution_forward::primitive_desc& forward);
dnnl::convolution_backward_weights::primitive_desc backward_weights(
    const dnnl::engine& engine, const Convolution& of,
    const dnnl::convolution_forward::primitive_desc& forward);

struct Pooling {
  dnnl::algorithm algorithm = dnnl::algorithm::pooling_max;
  dnnl::memory::desc source, destination;
  dnnl::memory::dims strides, kernel, padding;
};

dnnl::pooling_forward::primitive_desc forward(const dnnl::engine& engine, const Pooling& of);
dnnl::pooling_backward::primitive_desc backward(const dnnl::engine& engine, const Pooling& of,
                                                const dnnl::pooling_forward::primitive_desc& forward);

/// destination (+)= source · weights.
struct Product {
  dnnl::memory::desc source, weights, destination;
  bool add = false;
};

dnnl::matmul::primitive_desc product(const dnnl::engine& engine, const Product& of);

}  // namespace flotilla::descriptors
