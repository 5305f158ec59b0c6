// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/images.hpp"

#include <algorithm>

#include "kernels/bfloat16_values.hpp"
#include "kernels/cpu/image_passes.hpp"
#include "kernels/cpu/lanes.hpp"
#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"

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
    const ImageLayouts layouts(scope->engine(), precision_, scope->threads());
    parts_ = Parts{std::move(scope), layouts};
  }
  return *parts_;
}

std::shared_ptr<const ImageLayout> CpuImages::layout(const Shape& shape) {
  const ImageLayout layout = parts().layouts.of(shape);
  const bool plain = layout.tag == dnnl::memory::format_tag::nchw;
  return plain ? nullptr : std::make_shared<const ImageLayout>(layout);
}

std::size_t CpuImages::floats_of(const Shape& shape) const {
  const auto values = static_cast<std::size_t>(shape.size());
  return is_half(precision_) ? (values + 1) / 2 : values;
}

Tensor CpuImages::tensor(const Shape& shape) {
  return {shape, memory_.allocate(floats_of(shape)), layout(shape)};
}

Tensor CpuImages::view(const Shape& shape, DeviceSpan<float> memory) {
  check_view(shape, floats_of(shape), memory);
  return {shape, memory, layout(shape)};
}

void CpuImages::upload(std::span<const float> host, Tensor& to) {
  require(host.size() == static_cast<std::size_t>(to.shape().size()), "upload of ", host.size(),
          " values into ", to.shape().text());
  const auto* const layout = dynamic_cast<const ImageLayout*>(to.layout());
  with_values(precision_, [&]<class T>(T) {
    T* const values = values_as<T>(to).address();
    if (layout == nullptr) {
      std::transform(host.begin(), host.end(), values, from_float<T>);
    } else {
      for_each_place(*layout,
                     [&](std::size_t plain, std::int64_t at) { values[at] = from_float<T>(host[plain]); });
    }
  });
}

void CpuImages::download(const Tensor& from, std::span<float> host) {
  require(host.size() == static_cast<std::size_t>(from.shape().size()), "download of ", from.shape().text(),
          " into ", host.size(), " values");
  const auto* const layout = dynamic_cast<const ImageLayout*>(from.layout());
  with_values(precision_, [&]<class T>(T) {
    const T* const values = values_as<T>(from).address();
    if (layout == nullptr) {
      std::transform(values, values + host.size(), host.begin(), [](T value) { return to_float(value); });
    } else {
      for_each_place(*layout,
                     [&](std::size_t plain, std::int64_t at) { host[plain] = to_float(values[at]); });
    }
  });
}

void CpuImages::copy(const Tensor& from, Tensor& to) {
  check_alike(from, to);
  with_values(precision_, [&]<class T>(T) {
    const T* const values = values_as<T>(from).address();
    T* const target = values_as<T>(to).address();
    const std::int64_t count = from.shape().size();
    in_parts(threads_for(threads_, count), count, [&](std::int64_t begin, std::int64_t end) {
      std::copy(values + begin, values + end, target + begin);
    });
  });
}

void CpuImages::add(const Tensor& x, Tensor& y) {
  check_alike(x, y);
  with_values(precision_, [&]<class T>(T) {
    add_to(threads_, x.shape().size(), values_as<T>(x).address(), values_as<T>(y).address());
  });
}

void CpuImages::add_relu(const Tensor& a, const Tensor& b, Tensor& y) {
  check_alike(a, b);
  check_alike(a, y);
  with_values(precision_, [&]<class T>(T) {
    add_and_relu(threads_, a.shape().size(), values_as<T>(a).address(), values_as<T>(b).address(),
                 values_as<T>(y).address());
  });
}

void CpuImages::add_relu_backward(const Tensor& y, const Tensor& dy, Tensor& dx) {
  check_alike(y, dy);
  check_alike(y, dx);
  with_values(precision_, [&]<class T>(T) {
    mask_by_relu(threads_, y.shape().size(), values_as<T>(y).address(), values_as<T>(dy).address(),
                 values_as<T>(dx).address());
  });
}

}  // namespace flotilla
