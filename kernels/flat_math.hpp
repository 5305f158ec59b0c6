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
  /// What workers add to take the moments of their batches together: for a mean m, a biased variance v and a
  /// shift c that all workers share, sums[i] = m − c and sums[n + i] = v + (m − c)². Without shifts (empty) m
  /// and v are any values and are copied.   first m, second v, shifts (n); sums (2n)
  virtual void pack_sums(DeviceSpan<const float> first, DeviceSpan<const float> second,
                         DeviceSpan<const float> shifts, DeviceSpan<double> sums) = 0;
  /// The inverse, of sums over `batches` batches of one size: mean c + a and variance b − a², where a and b
  /// are sums / batches. Rounding in double costs the variance some 2⁻⁵³ a²: less than the rounding of m to
  /// float, for c = 0 as well (Chan, Golub & LeVeque 1983). Without shifts the sums are rounded to float.
  virtual void unpack_sums(DeviceSpan<const double> sums, DeviceSpan<const float> shifts,
                           std::int64_t batches, DeviceSpan<float> first, DeviceSpan<float> second) = 0;
};

}  // namespace flotilla
