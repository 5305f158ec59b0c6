// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor.hpp"

namespace flotilla {

/// A part of a flat array that an optimizer treats uniformly; usually one tensor.
struct FlatRange {
  std::int64_t offset = 0;
  std::int64_t count = 0;
  float weight_decay = 0.0F;
  float rate_factor = 1.0F;  ///< Multiplies the learning rate (LARS, LAMB: from norms; 0 freezes).
  friend bool operator==(const FlatRange&, const FlatRange&) = default;
};

/// Operations on flat arrays, each one pass. On the CPU and on a GPU they are the functors of
/// flat/functors.hpp; the reference device has plain loops. Sums are added in an order that depends on the
/// sizes only, never on threads.
class FlatMath {
 public:
  virtual ~FlatMath() = default;
  virtual void fill(DeviceSpan<float> x, float value) = 0;
  virtual void copy(DeviceSpan<const float> from, DeviceSpan<float> to) = 0;
  virtual void scale(DeviceSpan<float> x, float factor) = 0;  ///< x ← factor · x
  virtual void axpy(float factor, DeviceSpan<const float> x,
                    DeviceSpan<float> y) = 0;  ///< y ← y + factor · x
  virtual double sum_of_squares(DeviceSpan<const float> x) = 0;
  /// norms[i] = ‖x over ranges[i]‖₂.
  virtual void norms(DeviceSpan<const float> x, std::span<const FlatRange> ranges,
                     std::span<double> norms) = 0;
  virtual bool all_finite(DeviceSpan<const float> x) = 0;
  /// sums[i] = Σ over r of rows[r][i], added in double in the order of the rows.   rows (any, sums.size())
  virtual void sum_rows(DeviceSpan<const float> rows, DeviceSpan<float> sums) = 0;
  /// Means and biased variances of batches taken together (Chan, Golub & LeVeque 1979), added in double in
  /// the order of the rows. Each row holds the means of one batch and then, from its middle on, the
  /// variances; `moments` has the same layout. `count` values per mean in each batch.   rows (batches,
  /// moments.size())
  virtual void combine_moments(DeviceSpan<const float> rows, std::int64_t count,
                               DeviceSpan<float> moments) = 0;
};

}  // namespace flotilla
