// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/flat_updates.hpp"

namespace flotilla {

/// FlatMath for memory of the host: the rules of flat/functors.hpp, cut into 64 KiB chunks over OpenMP
/// threads. All results are the same bits for every number of threads. Sums, norms and all_finite share a
/// workspace: not for two threads at once.
class HostFlat : public FlatMath, public FlatUpdates {
 public:
  explicit HostFlat(int threads) : threads_(threads) {}

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

 private:
  template <class Term>
  double sum(const Term& term, std::int64_t begin, std::int64_t count);

  int threads_;
  std::vector<double> partials_;  // one per chunk, added in order
};

}  // namespace flotilla
