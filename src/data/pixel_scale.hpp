// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace flotilla {

/// Pixels p = 0 … 255 become p · 1 / (255 std) − mean / std, in float.
struct PixelScale {
  double mean = 0.0;
  double std = 1.0;  ///< positive
};

/// A PixelScale as a product and a sum in float.
class PixelScaler {
 public:
  explicit PixelScaler(const PixelScale& scale);
  float factor() const { return factor_; }
  float offset() const { return offset_; }
  /// Writes as many values as there are pixels.
  void convert(std::span<const std::uint8_t> pixels, float* to) const;

 private:
  float factor_;
  float offset_;
};

}  // namespace flotilla
