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

  void sgd(const UpdateInput& in) override;
  void momentum(const UpdateInput& in, DeviceSpan<float> velocity, float mu, bool nesterov) override;
  void lars(const UpdateInput& in, DeviceSpan<float> velocity, float mu) override;
  void adam(const UpdateInput& in, DeviceSpan<float> first, DeviceSpan<float> second, float beta1,
            float beta2, float epsilon, std::int64_t step) override;
  void lamb_direction(const UpdateInput& in, DeviceSpan<float> first, DeviceSpan<float> second, float beta1,
                      float beta2, float epsilon, std::int64_t step, DeviceSpan<float> direction) override;
  void adagrad(const UpdateInput& in, DeviceSpan<float> accumulator, float epsilon) override;

 private:
  /// The parts of an update that stay the same from step to step.
  struct Update {
    DeviceSpan<float> parameters;
    DeviceSpan<const float> gradients;
    Decay decay = Decay::coupled;
    const UpdateNumbers* numbers = nullptr;
    std::int64_t ranges = 0;  ///< Number of the list of ranges
    friend bool operator==(const Update&, const Update&) = default;
  };
  struct Moments {
    DeviceSpan<float> first;
    DeviceSpan<float> second;
    float beta1 = 0.0F;
    float beta2 = 0.0F;
    float epsilon = 0.0F;
    friend bool operator==(const Moments&, const Moments&) = default;
  };

  bool new_ranges(const UpdateInput& in);
  Update listed(const UpdateInput& in, const UpdateNumbers& numbers);
  UpdateInput unlisted(const Update& update) const;
  void list_sgd(const Update& update);
  void list_momentum(const Update& update, DeviceSpan<float> velocity, float mu, bool nesterov);
  void list_lars(const Update& update, DeviceSpan<float> velocity, float mu);
  void list_adam(const Update& update, const Moments& moments);
  void list_lamb_direction(const Update& update, const Moments& moments, DeviceSpan<float> direction);
  void list_adagrad(const Update& update, DeviceSpan<float> accumulator, float epsilon);

  FlatMath& flat_;
  FlatUpdates& updates_;
  WorkList& list_;
  std::vector<FlatRange> ranges_;  ///< Those that `flat_` has cut into chunks last
  std::int64_t ranges_seen_ = 0;
};

}  // namespace flotilla
