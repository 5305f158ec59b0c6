// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/half_rounding.hpp"

namespace flotilla::reference {

/// Emulates storage in half precision: rounds the floats that this device keeps.
class Rounding {
 public:
  explicit Rounding(Precision precision) : precision_(precision) {}
  bool rounds() const { return is_half(precision_); }

  /// Rounds values where a half would have been written.
  void round(std::span<float> values) const {
    if (!rounds()) return;
    for (float& value : values) value = half::rounded(precision_, value);
  }

 private:
  Precision precision_;
};

/// A copy of float32 values, rounded to halves: of weights, or of a batch from the host. Valid until the
/// next.
class HalfCopy {
 public:
  explicit HalfCopy(Rounding rounding) : rounding_(rounding) {}
  /// `values` themselves without half precision.
  std::span<const float> of(std::span<const float> values) {
    if (!rounding_.rounds()) return values;
    copy_.assign(values.begin(), values.end());
    rounding_.round(copy_);
    return copy_;
  }

 private:
  Rounding rounding_;
  std::vector<float> copy_;
};

/// Gradients of a convolution's weights that are written in halves, once in a pass, and added up in float32.
class HalfGradient {
 public:
  HalfGradient(Rounding rounding, bool accumulate) : rounding_(rounding), accumulate_(accumulate) {}
  /// The zeroed array that one pass writes or adds to; `gradient` itself without half precision.
  std::span<float> room_for(std::span<float> gradient) {
    if (!rounding_.rounds()) return gradient;
    own_.assign(gradient.size(), 0.0F);
    return own_;
  }
  /// To be called after the pass: copies its result to `gradient`, or adds it.
  void finish(std::span<float> gradient) {
    if (!rounding_.rounds()) return;
    rounding_.round(own_);
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = accumulate_ ? gradient[i] + own_[i] : own_[i];
  }

 private:
  Rounding rounding_;
  bool accumulate_;
  std::vector<float> own_;
};

}  // namespace flotilla::reference
