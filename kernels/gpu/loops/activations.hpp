// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/gpu/loops/column_sums.hpp"
#include "kernels/gpu/loops/plan_scope.hpp"
#include "kernels/image_checks.hpp"

/// Activations by themselves, and with biases on rows of channels.
namespace flotilla::loops {

struct DeviceMath {
  KOKKOS_INLINE_FUNCTION static float tanh(float z) { return std::tanh(z); }
  KOKKOS_INLINE_FUNCTION static float sigmoid(float z) { return 1.0F / (1.0F + std::exp(-z)); }
  KOKKOS_INLINE_FUNCTION static float erf(float z) { return std::erf(z); }
  KOKKOS_INLINE_FUNCTION static float exp(float z) { return std::exp(z); }
  KOKKOS_INLINE_FUNCTION static float log1p(float z) { return std::log1p(z); }
};

template <class T, int V>
struct BiasActivation {
  Activation f = Activation::identity;
  const float* bias = nullptr;  ///< May be null.
  T* x = nullptr;

  KOKKOS_INLINE_FUNCTION void operator()(const Tiles& tiles, const LanePlace& at) const {
    const std::int64_t channels = std::int64_t{tiles.packs} * V;
    const std::int64_t column = std::int64_t{at.pack} * V;
    Floats<V> biases{};
    if (bias != nullptr) {
      for (int v = 0; v < V; ++v) biases[v] = bias[column + v];
    }
    walk<2>(
        tiles, at, [&](std::int64_t row) { return load<V>(x, row * channels + column); },
        [&](std::int64_t row, const Pack<T, V>& pack) {
          Floats<V> values = floats(pack);
          for (int v = 0; v < V; ++v) values[v] = activation_value<DeviceMath>(f, values[v] + biases[v]);
          store<V>(values, x, row * channels + column);
        });
  }
  friend bool operator==(const BiasActivation&, const BiasActivation&) = default;
};

/// dy ← dy · f'(y), and its sums.
template <class T, int V>
struct ActivationGradient {
  Activation f = Activation::identity;
  const T* y = nullptr;
  T* dy = nullptr;

  struct Row {
    Pack<T, V> y, dy;
  };
  KOKKOS_INLINE_FUNCTION void operator()(const Tiles& tiles, const LanePlace& at, std::int64_t,
                                         Floats<V>& sums, Floats<V>&) const {
    const std::int64_t channels = std::int64_t{tiles.packs} * V;
    const std::int64_t column = std::int64_t{at.pack} * V;
    walk<2>(
        tiles, at,
        [&](std::int64_t row) {
          const std::int64_t i = row * channels + column;
          Row read;
          read.dy = load<V>(dy, i);
          if (f != Activation::identity) read.y = load<V>(y, i);
          return read;
        },
        [&](std::int64_t row, const Row& read) {
          Floats<V> gradient = floats(read.dy);
          if (f != Activation::identity) {
            const Floats<V> values = floats(read.y);
            for (int v = 0; v < V; ++v) gradient[v] *= activation_slope(f, values[v]);
            store<V>(gradient, dy, row * channels + column);
          }
          for (int v = 0; v < V; ++v) sums[v] += gradient[v];
        });
  }
  friend bool operator==(const ActivationGradient&, const ActivationGradient&) = default;
};

struct StoreBiasGradient {
  float* db = nullptr;
  bool accumulate = false;
  KOKKOS_INLINE_FUNCTION bool wanted() const { return db != nullptr; }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t channel, double sum, double) const {
    if (!wanted()) return;
    db[channel] = static_cast<float>(sum) + (accumulate ? db[channel] : 0.0F);
  }
  friend bool operator==(const StoreBiasGradient&, const StoreBiasGradient&) = default;
};

template <class T>
struct Activate {
  Activation f = Activation::identity;
  const T* x = nullptr;
  T* y = nullptr;
  template <int V>
  KOKKOS_INLINE_FUNCTION void operator()(Width<V>, std::int64_t first) const {
    Floats<V> values = load_floats<V>(x, first);
    for (int v = 0; v < V; ++v) values[v] = activation_value<DeviceMath>(f, values[v]);
    store<V>(values, y, first);
  }
  friend bool operator==(const Activate&, const Activate&) = default;
};

template <class T>
struct ActivateBackward {
  Activation f = Activation::identity;
  const T* x = nullptr;
  const T* y = nullptr;
  const T* dy = nullptr;
  T* dx = nullptr;
  template <int V>
  KOKKOS_INLINE_FUNCTION void operator()(Width<V>, std::int64_t first) const {
    const Floats<V> arguments = load_floats<V>(x, first);
    const Floats<V> values = load_floats<V>(y, first);
    Floats<V> gradient = load_floats<V>(dy, first);
    for (int v = 0; v < V; ++v) gradient[v] *= activation_slope<DeviceMath>(f, arguments[v], values[v]);
    store<V>(gradient, dx, first);
  }
  friend bool operator==(const ActivateBackward&, const ActivateBackward&) = default;
};

template <class Space, class T>
class ElementwisePlan : public Elementwise {
 public:
  ElementwisePlan(const PlanScope<Space>& scope, const ElementwiseSpec& spec) : scope_(scope), spec_(spec) {}
  void forward(const Tensor& x, Tensor& y) override {
    check_elementwise(spec_, {&x, &y});
    for_each_pack<full_pack<T>>(scope_.space, "activation", spec_.input.size(),
                                Activate<T>{spec_.function, elements<T>(x), elements<T>(y)});
  }
  void backward(const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) override {
    check_elementwise(spec_, {&x, &y, &dy, &dx});
    for_each_pack<full_pack<T>>(scope_.space, "activation backward", spec_.input.size(),
                                ActivateBackward<T>{spec_.function, elements<T>(x), elements<T>(y),
                                                    elements<T>(dy), elements<T>(dx)});
  }

 private:
  PlanScope<Space> scope_;
  ElementwiseSpec spec_;
};

}  // namespace flotilla::loops
