// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kernels/bfloat16_values.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/layers/dropout.hpp"
#include "kernels/precision.hpp"
#include "kernels/threads.hpp"

namespace flotilla {

/// to = from / (1 − p) where the mask of (spec, step) keeps a value, 0 otherwise.
template <class T>
void drop_out(int threads, const DropoutSpec& spec, std::uint64_t step, const T* from, T* to) {
  const std::int64_t count = spec.input.size();
  const float factor = 1.0F / (1.0F - spec.probability);
  const std::uint32_t threshold = dropout_threshold(spec);
  in_parts(threads_for(threads, count), (count + 3) / 4, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      const auto words = dropout_words(spec, step, block);
      const std::int64_t end = std::min(count, 4 * block + 4);
      for (std::int64_t i = 4 * block; i < end; ++i)
        to[i] = words[static_cast<std::size_t>(i % 4)] < threshold
                    ? T{}
                    : from_float<T>(factor * to_float(from[i]));
    }
  });
}

/// Dropout by an own pass. The bits do not depend on the threads.
class CpuDropout : public Dropout {
 public:
  /// @param precision of the tensors, float32 or bfloat16
  CpuDropout(int threads, Precision precision, const DropoutSpec& spec)
      : threads_(threads), precision_(precision), spec_(spec) {
    check_spec(spec);
  }
  void forward(std::uint64_t step, const Tensor& x, Tensor& y) override {
    check_dropout(spec_, step, x, y);
    with_values(precision_, [&]<class T>(T) {
      drop_out(threads_, spec_, step, values_as<T>(x).address(), values_as<T>(y).address());
    });
  }
  void backward(std::uint64_t step, const Tensor& dy, Tensor& dx) override { forward(step, dy, dx); }

 private:
  int threads_;
  Precision precision_;
  DropoutSpec spec_;
};

}  // namespace flotilla
