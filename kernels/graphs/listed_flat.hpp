// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/flat_updates.hpp"
#include "kernels/graphs/work_list.hpp"

namespace flotilla {

/// The FlatMath of make_listed_loops.
class ListedFlat : public FlatMath, public FlatUpdates {
 public:
  ListedFlat(FlatMath& flat, FlatUpdates& updates, WorkList& list)
      : flat_(flat), updates_(updates), list_(list) {}

  void fill(DeviceSpan<float> x, float value) override;
  void copy(DeviceSpan<const float> from, DeviceSpan<float> to) override;
  void scale(DeviceSpan<float> x, float factor) override;
  void axpy(float factor, DeviceSpan<const float> x, DeviceSpan<float> y) override;
  double sum_of_squares(DeviceSpan<const float> x) override;
  void norms(DeviceSpan<const float> x, std::span<const FlatRange> ranges, std::span<double> norms) override;
  bool all_finite(DeviceSpan<const float> x) override;
  void sum_rows(DeviceSpan<const float> rows, DeviceSpan<float> sums) override;
  void combine_moments(DeviceSpan<const float> rows, std::int64_t count, DeviceSpan<float> moments) override;
  void update(const UpdateInput& in, const UpdateRule& rule, const UpdateState& state) override;
  void update_by_norms(const UpdateInput& in, const TrustRatio& ratio, const UpdateRule& rule,
                       const UpdateState& state) override;

 private:
  /// The parts of an update that stay the same from step to step.
  struct Update {
    DeviceSpan<float> parameters;
    DeviceSpan<const float> gradients;
    Decay decay = Decay::coupled;
    const UpdateNumbers* numbers = nullptr;
    std::int64_t ranges = 0;  ///< Number of the list of ranges
    HalfCopy halves;
    friend bool operator==(const Update&, const Update&) = default;
  };

  /// The ranges that `flat_` has cut into chunks last.
  struct Ranges {
    std::vector<FlatRange> list;
    std::int64_t seen = 0;  ///< Lists so far
  };

  bool are_new(const UpdateInput& in, Ranges& ranges);
  Update listed(const UpdateInput& in, const UpdateRule& rule, const Ranges& ranges);
  static UpdateInput input(const Update& update, const Ranges& ranges);
  void do_update(const Update& update, const UpdateRule& rule, const UpdateState& state);
  void do_update_by_norms(const Update& update, const TrustRatio& ratio, const UpdateRule& rule,
                          const UpdateState& state);

  FlatMath& flat_;
  FlatUpdates& updates_;
  WorkList& list_;
  Ranges ranges_;       ///< Of updates
  Ranges norm_ranges_;  ///< Of updates by norms
};

}  // namespace flotilla
