// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/images.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"

namespace flotilla {

namespace {

using reference::host;

void check_same_shape(const Tensor& a, const Tensor& b) {
  require(a.shape() == b.shape(), "tensors of one shape are needed, got ", a.shape().text(), " and ",
          b.shape().text());
}

}  // namespace

Tensor ReferenceImages::tensor(const Shape& shape) {
  return {shape, memory_.allocate(static_cast<std::size_t>(shape.size()))};
}

Tensor ReferenceImages::view(const Shape& shape, DeviceSpan<float> memory) {
  check_view(shape, static_cast<std::size_t>(shape.size()), memory);
  return {shape, memory};
}

void ReferenceImages::upload(std::span<const float> from, Tensor& to) {
  require(from.size() == to.span().size(), "upload of ", from.size(), " into ", to.span().size(), " values");
  std::ranges::copy(from, host(to.span()).begin());
}

void ReferenceImages::download(const Tensor& from, std::span<float> to) {
  require(from.span().size() == to.size(), "download of ", from.span().size(), " into ", to.size(),
          " values");
  std::ranges::copy(host(from.span()), to.begin());
}

void ReferenceImages::copy(const Tensor& from, Tensor& to) {
  check_same_shape(from, to);
  std::ranges::copy(host(from.span()), host(to.span()).begin());
}

void ReferenceImages::add(const Tensor& x, Tensor& y) {
  check_same_shape(x, y);
  for (std::size_t i = 0; i < x.span().size(); ++i) host(y.span())[i] += host(x.span())[i];
  rounding_.round(host(y.span()));
}

void ReferenceImages::add_relu(const Tensor& a, const Tensor& b, Tensor& y) {
  check_image("b", b, a.shape());
  check_image("y", y, a.shape());
  for (std::size_t i = 0; i < a.span().size(); ++i) {
    const float sum = host(a.span())[i] + host(b.span())[i];
    host(y.span())[i] = sum < 0.0F ? 0.0F : sum;  // NaN stays NaN
  }
  rounding_.round(host(y.span()));
}

void ReferenceImages::add_relu_backward(const Tensor& y, const Tensor& dy, Tensor& dx) {
  check_image("dy", dy, y.shape());
  check_image("dx", dx, y.shape());
  for (std::size_t i = 0; i < y.span().size(); ++i)
    host(dx.span())[i] = host(y.span())[i] > 0.0F ? host(dy.span())[i] : 0.0F;
}

}  // namespace flotilla
