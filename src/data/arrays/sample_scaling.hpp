// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/host_batch.hpp"
#include "kernels/tensor.hpp"
#include "src/data/arrays/number_type.hpp"
#include "src/data/pixel_scale.hpp"

namespace flotilla {

/// Means and deviations of (x − mean) / std, one or one for each group of values; both empty: 0 and 1.
struct GivenScaling {
  std::vector<double> mean{};
  std::vector<double> std{};
};

/// Makes values of the numbers of a sample, or of its targets.
class SampleScaling {
 public:
  /// @param groups channels of an image, features or targets
  /// @param given none, 1 or `groups` means and deviations each
  SampleScaling(NumberType type, std::int64_t groups, const GivenScaling& given);
  /// Numbers p of type uint8 are scaled as pixels: (p / 255 − mean) / std.
  static SampleScaling of_pixels(std::int64_t groups, const GivenScaling& given);

  /// @param numbers in this machine's byte order
  void convert(std::span<const std::byte> numbers, std::span<float> to) const;
  /// Whether convert() copies: float32 as it is.
  bool changes_nothing() const;
  /// Of each channel of a sample that is bytes.
  ByteScaling bytes(std::int64_t channels) const;

 private:
  NumberType type_;
  std::vector<double> mean_;
  std::vector<double> inverse_;
  std::vector<PixelScaler> pixels_;  ///< Instead of them
};

}  // namespace flotilla
