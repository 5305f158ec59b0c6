// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/images.hpp"

#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"

namespace flotilla {

namespace {

void check_same_layout(const Tensor& a, const Tensor& b) {
  require(a.shape() == b.shape() && is_nhwc(a) == is_nhwc(b),
          "tensors of one shape and layout are needed, got ", a.shape().text(), " and ", b.shape().text());
}

}  // namespace

LoopsImages::LoopsImages(const LoopsContext& context, DeviceQueue& queue)
    : context_(context), queue_(queue), layout_(std::make_shared<NhwcLayout>()) {}

Tensor LoopsImages::tensor(const Shape& shape) {
  return {shape, context_.memory.allocate(floats_of(shape.size(), context_.precision)), layout_};
}

Tensor LoopsImages::view(const Shape& shape, DeviceSpan<float> memory) {
  check_view(shape, floats_of(shape.size(), context_.precision), memory);
  return {shape, memory, layout_};
}

void LoopsImages::upload(std::span<const float> host, Tensor& to) {
  Storage plain = context_.memory.allocate(host.size());
  context_.memory.upload(host, plain.span());
  const Values values = values_of(to, context_.precision);
  if (is_nhwc(to)) {
    context_.loops.to_nhwc(to.shape(), to.shape()[1], values_of(plain.span()), values);
  } else {
    context_.loops.cast(values_of(plain.span()), values, {});
  }
  queue_.synchronize();  // `plain` is freed here
}

void LoopsImages::download(const Tensor& from, std::span<float> host) {
  Storage plain = context_.memory.allocate(host.size());
  const GivenValues values = values_of(from, context_.precision);
  if (is_nhwc(from)) {
    context_.loops.from_nhwc(from.shape(), from.shape()[1], values, values_of(plain.span()));
  } else {
    context_.loops.cast(values, values_of(plain.span()), {});
  }
  context_.memory.download(plain.span(), host);
}

void LoopsImages::copy(const Tensor& from, Tensor& to) {
  check_same_layout(from, to);
  context_.loops.cast(values_of(from, context_.precision), values_of(to, context_.precision), {});
}

void LoopsImages::add(const Tensor& x, Tensor& y) {
  check_same_layout(x, y);
  context_.loops.cast(values_of(x, context_.precision), values_of(y, context_.precision), {.add = true});
}

void LoopsImages::add_relu(const Tensor& a, const Tensor& b, Tensor& y) {
  context_.loops.add_relu(values_of(a, context_.precision), values_of(b, context_.precision),
                          values_of(y, context_.precision));
}

void LoopsImages::add_relu_backward(const Tensor& y, const Tensor& dy, Tensor& dx) {
  context_.loops.add_relu_backward(values_of(y, context_.precision), values_of(dy, context_.precision),
                                   values_of(dx, context_.precision));
}

}  // namespace flotilla
