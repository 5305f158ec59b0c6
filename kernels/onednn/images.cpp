// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/images.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/onednn/image_passes.hpp"
#include "kernels/onednn/lanes.hpp"

namespace flotilla {

namespace {

/// Calls body(place in plain order, place in the layout) for every value.
template <class Body>
void for_each_place(const ImageLayout& layout, const Body& body) {
  for_each_unit(1, layout, [&](std::int64_t image, std::int64_t block, std::int64_t offset) {
    for (std::int64_t p = 0; p < layout.pixels; ++p) {
      for (std::int64_t l = 0; l < layout.lanes; ++l) {
        const std::int64_t channel = image * layout.channels + block * layout.lanes + l;
        body(static_cast<std::size_t>(channel * layout.pixels + p), offset + p * layout.pixel_stride + l);
      }
    }
  });
}

void check_alike(const Tensor& a, const Tensor& b) {
  const auto tag = [](const Tensor& tensor) {
    const auto* const layout = dynamic_cast<const ImageLayout*>(tensor.layout());
    return layout == nullptr ? dnnl::memory::format_tag::nchw : layout->tag;
  };
  require(a.shape() == b.shape() && tag(a) == tag(b), "tensors of one shape and layout are needed, got ",
          a.shape().text(), " and ", b.shape().text());
}

}  // namespace

const CpuImages::Parts& CpuImages::parts() {
  if (!parts_) {
    auto scope = std::make_shared<PrimitiveScope>(threads_, memory_);
    const ImageLayouts layouts(scope->engine());
    parts_ = Parts{std::move(scope), layouts};
  }
  return *parts_;
}

std::shared_ptr<const ImageLayout> CpuImages::layout(const Shape& shape) {
  const ImageLayout layout = parts().layouts.of(shape);
  return layout.lanes == 1 ? nullptr : std::make_shared<const ImageLayout>(layout);
}

Tensor CpuImages::tensor(const Shape& shape) {
  return {shape, memory_.allocate(static_cast<std::size_t>(shape.size())), layout(shape)};
}

Tensor CpuImages::view(const Shape& shape, DeviceSpan<float> memory) {
  check_view(shape, memory);
  return {shape, memory, layout(shape)};
}

void CpuImages::upload(std::span<const float> host, Tensor& to) {
  require(host.size() == static_cast<std::size_t>(to.shape().size()), "upload of ", host.size(),
          " values into ", to.shape().text());
  const auto* const layout = dynamic_cast<const ImageLayout*>(to.layout());
  float* const values = float_values(to).address();
  if (layout == nullptr) {
    std::copy(host.begin(), host.end(), values);
  } else {
    for_each_place(*layout, [&](std::size_t plain, std::int64_t at) { values[at] = host[plain]; });
  }
}

void CpuImages::download(const Tensor& from, std::span<float> host) {
  require(host.size() == static_cast<std::size_t>(from.shape().size()), "download of ", from.shape().text(),
          " into ", host.size(), " values");
  const auto* const layout = dynamic_cast<const ImageLayout*>(from.layout());
  const float* const values = float_values(from).address();
  if (layout == nullptr) {
    std::copy_n(values, host.size(), host.begin());
  } else {
    for_each_place(*layout, [&](std::size_t plain, std::int64_t at) { host[plain] = values[at]; });
  }
}

void CpuImages::copy(const Tensor& from, Tensor& to) {
  check_alike(from, to);
  const float* const values = float_values(from).address();
  float* const target = float_values(to).address();
  const std::int64_t count = from.shape().size();
  in_parts(threads_for(threads_, count), count, [&](std::int64_t begin, std::int64_t end) {
    std::copy(values + begin, values + end, target + begin);
  });
}

void CpuImages::add(const Tensor& x, Tensor& y) {
  check_alike(x, y);
  add_to(threads_, x.shape().size(), float_values(x).address(), float_values(y).address());
}

void CpuImages::add_relu(const Tensor& a, const Tensor& b, Tensor& y) {
  check_alike(a, b);
  check_alike(a, y);
  add_and_relu(threads_, a.shape().size(), float_values(a).address(), float_values(b).address(),
               float_values(y).address());
}

void CpuImages::add_relu_backward(const Tensor& y, const Tensor& dy, Tensor& dx) {
  check_alike(y, dy);
  check_alike(y, dx);
  mask_by_relu(threads_, y.shape().size(), float_values(y).address(), float_values(dy).address(),
               float_values(dx).address());
}

}  // namespace flotilla
