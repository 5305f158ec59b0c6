// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "kernels/random.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// y = x / (1 − p) where a value is kept, 0 otherwise, with p the probability of dropping (Srivastava et al.
/// 2014). The mask is a pure function of (seed, layer, step) and the position in a plain tensor: backward
/// computes it again.
struct DropoutSpec {
  Shape input;               ///< Any shape; the tensors are plain.
  float probability = 0.0F;  ///< In [0, 1).
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;  ///< Below 2^24.
  friend bool operator==(const DropoutSpec&, const DropoutSpec&) = default;
};

/// Random words of the values 4·block … 4·block + 3; a value whose word is below dropout_threshold is
/// dropped.
constexpr std::array<std::uint32_t, 4> dropout_words(const DropoutSpec& spec, std::uint64_t step,
                                                     std::int64_t block) {
  const std::uint64_t index = std::uint64_t{spec.layer} << 40 | step;
  return philox({static_cast<std::uint32_t>(block), random_dropout, static_cast<std::uint32_t>(index),
                 static_cast<std::uint32_t>(index >> 32)},
                {static_cast<std::uint32_t>(spec.seed), static_cast<std::uint32_t>(spec.seed >> 32)});
}

constexpr std::uint32_t dropout_threshold(const DropoutSpec& spec) {
  return static_cast<std::uint32_t>(double{spec.probability} * 0x1.0p32);
}

class Dropout {
 public:
  virtual ~Dropout() = default;
  /// @param step a number of the forward pass, unique over all workers, so that no two use one mask. Below
  /// 2^40.
  virtual void forward(std::uint64_t step, const Tensor& x, Tensor& y) = 0;     ///< y may be x.
  virtual void backward(std::uint64_t step, const Tensor& dy, Tensor& dx) = 0;  ///< dx may be dy.
};

}  // namespace flotilla
