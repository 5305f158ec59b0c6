// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/flat_updates.hpp"

namespace flotilla {

/// FlatMath as plain loops in double, value by value, exactly over the ranges.
class ReferenceFlat : public FlatMath, public FlatUpdates {
 public:
  void fill(DeviceSpan<float> x, float value) override;
  void copy(DeviceSpan<const float> from, DeviceSpan<float> to) override;
  void scale(DeviceSpan<float> x, float factor) override;
  void axpy(float factor, DeviceSpan<const float> x, DeviceSpan<float> y) override;
  double sum_of_squares(DeviceSpan<const float> x) override;
  void norms(DeviceSpan<const float> x, std::span<const FlatRange> ranges, std::span<double> norms) override;
  bool all_finite(DeviceSpan<const float> x) override;
  void pack_sums(DeviceSpan<const float> first, DeviceSpan<const float> second,
                 DeviceSpan<const float> shifts, DeviceSpan<double> sums) override;
  void unpack_sums(DeviceSpan<const double> sums, DeviceSpan<const float> shifts, std::int64_t batches,
                   DeviceSpan<float> first, DeviceSpan<float> second) override;
  void update(const UpdateInput& in, const UpdateRule& rule, const UpdateState& state) override;
};

}  // namespace flotilla
