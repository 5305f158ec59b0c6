// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gpu/loops/launch.hpp"
#include "kernels/gpu/loops/plan_scope.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/layers/dropout.hpp"

namespace flotilla::loops {

/// The mask of kernels/layers/dropout.hpp: four values share ten rounds of Philox.
template <class T>
struct DropValues {
  DropoutSpec spec;
  DeviceScalar<std::uint64_t> step;
  std::uint32_t threshold = 0;
  float factor = 1.0F;
  const T* from = nullptr;
  T* to = nullptr;

  /// V is 4, or 1 for the last values.
  template <int V>
  KOKKOS_INLINE_FUNCTION void operator()(Width<V>, std::int64_t first) const {
    const std::array<std::uint32_t, 4> words = dropout_words(spec, step.get(), first / 4);
    Floats<V> values = load_floats<V>(from, first);
    for (int v = 0; v < V; ++v) {
      const bool kept = words[static_cast<std::size_t>(first % 4 + v)] >= threshold;
      values[v] = kept ? factor * values[v] : 0.0F;
    }
    store<V>(values, to, first);
  }
  friend bool operator==(const DropValues&, const DropValues&) = default;
};

template <class Space, class T>
class DropoutPlan : public Dropout {
 public:
  DropoutPlan(const PlanScope<Space>& scope, const DropoutSpec& spec) : scope_(scope), spec_(spec) {
    check_spec(spec);
  }
  void forward(std::uint64_t step, const Tensor& x, Tensor& y) override { mask(step, x, y); }
  void backward(std::uint64_t step, const Tensor& dy, Tensor& dx) override { mask(step, dy, dx); }

 private:
  void mask(std::uint64_t step, const Tensor& from, Tensor& to) {
    check_dropout(spec_, step, from, to);
    for_each_pack<4>(scope_.space, "dropout", spec_.input.size(),
                     DropValues<T>{spec_, late(scope_.space, step), dropout_threshold(spec_),
                                   1.0F / (1.0F - spec_.probability), elements<T>(from), elements<T>(to)});
  }

  PlanScope<Space> scope_;
  DropoutSpec spec_;
};

}  // namespace flotilla::loops
