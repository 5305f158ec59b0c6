// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/gpu/loops/casts.hpp"
#include "kernels/gpu/loops/plan_scope.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/image_operations.hpp"

namespace flotilla::loops {

template <class T>
struct AddRelu {
  const T* a = nullptr;
  const T* b = nullptr;
  T* y = nullptr;
  template <int V>
  KOKKOS_INLINE_FUNCTION void operator()(Width<V>, std::int64_t first) const {
    Floats<V> sums = load_floats<V>(a, first);
    const Floats<V> more = load_floats<V>(b, first);
    for (int v = 0; v < V; ++v) {
      const float sum = sums[v] + more[v];
      sums[v] = sum < 0.0F ? 0.0F : sum;  // NaN stays NaN
    }
    store<V>(sums, y, first);
  }
  friend bool operator==(const AddRelu&, const AddRelu&) = default;
};

template <class T>
struct AddReluBackward {
  const T* y = nullptr;
  const T* dy = nullptr;
  T* dx = nullptr;
  template <int V>
  KOKKOS_INLINE_FUNCTION void operator()(Width<V>, std::int64_t first) const {
    Floats<V> gradient = load_floats<V>(dy, first);
    const Floats<V> values = load_floats<V>(y, first);
    for (int v = 0; v < V; ++v) gradient[v] = values[v] > 0.0F ? gradient[v] : 0.0F;
    store<V>(gradient, dx, first);
  }
  friend bool operator==(const AddReluBackward&, const AddReluBackward&) = default;
};

/// NHWC tensors and their sums.
template <class Space, class T>
class LoopImages : public ImageOperations {
 public:
  /// `queue` must outlive it.
  LoopImages(const PlanScope<Space>& scope, DeviceQueue& queue)
      : scope_(scope), queue_(queue), layout_(std::make_shared<NhwcLayout>()) {}

  Tensor tensor(const Shape& shape) override {
    return {shape, scope_.memory.allocate(floats_of(shape.size(), T::precision)), layout_};
  }
  Tensor view(const Shape& shape, DeviceSpan<float> memory) override {
    check_view(shape, floats_of(shape.size(), T::precision), memory);
    return {shape, memory, layout_};
  }

  void upload(std::span<const float> host, Tensor& to) override {
    check_values(host.size(), to);
    Storage plain = scope_.memory.allocate(host.size());
    scope_.memory.upload(host, plain.span());
    const Float32* const from = elements(plain.span());
    if (is_nhwc(to)) {
      check_images(to.shape(), {to.shape()[1]});
      to_nhwc(scope_.space, to.shape(), {to.shape()[1]}, from, elements<T>(to));
    } else {
      cast(scope_.space, to.shape().size(), from, elements<T>(to), {});
    }
    queue_.synchronize();  // `plain` is freed here
  }
  void download(const Tensor& from, std::span<float> host) override {
    check_values(host.size(), from);
    Storage plain = scope_.memory.allocate(host.size());
    Float32* const to = elements(plain.span());
    if (is_nhwc(from)) {
      check_images(from.shape(), {from.shape()[1]});
      from_nhwc(scope_.space, from.shape(), from.shape()[1], elements<T>(from), to);
    } else {
      cast(scope_.space, from.shape().size(), elements<T>(from), to, {});
    }
    scope_.memory.download(plain.span(), host);
  }

  void copy(const Tensor& from, Tensor& to) override {
    check_same_layout(from, to);
    cast(scope_.space, to.shape().size(), elements<T>(from), elements<T>(to), {});
  }
  void add(const Tensor& x, Tensor& y) override {
    check_same_layout(x, y);
    cast(scope_.space, y.shape().size(), elements<T>(x), elements<T>(y), {.add = true});
  }
  void add_relu(const Tensor& a, const Tensor& b, Tensor& y) override {
    check_same_layout(a, y);
    check_same_layout(b, y);
    for_each_pack<full_pack<T>>(scope_.space, "add and relu", y.shape().size(),
                                AddRelu<T>{elements<T>(a), elements<T>(b), elements<T>(y)});
  }
  void add_relu_backward(const Tensor& y, const Tensor& dy, Tensor& dx) override {
    check_same_layout(y, dx);
    check_same_layout(dy, dx);
    for_each_pack<full_pack<T>>(scope_.space, "add and relu backward", dx.shape().size(),
                                AddReluBackward<T>{elements<T>(y), elements<T>(dy), elements<T>(dx)});
  }

 private:
  static void check_values(std::size_t host, const Tensor& image) {
    require(host == static_cast<std::size_t>(image.shape().size()), "a copy of ", image.shape().text(),
            " holds ", image.shape().size(), " values, not ", host);
  }
  static void check_same_layout(const Tensor& a, const Tensor& b) {
    require(a.shape() == b.shape() && is_nhwc(a) == is_nhwc(b),
            "tensors of one shape and layout are needed, got ", a.shape().text(), " and ", b.shape().text());
  }

  PlanScope<Space> scope_;
  DeviceQueue& queue_;
  std::shared_ptr<const Layout> layout_;  // shared by the tensors
};

}  // namespace flotilla::loops
