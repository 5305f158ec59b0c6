// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device_loops/activations.hpp"
#include "kernels/device_loops/device_loops.hpp"
#include "kernels/device_loops/launch.hpp"

/// Losses of outputs that are numbers (formulas: kernels/layers/output_loss.hpp): a team per row, then one
/// team adds the rows up.
namespace flotilla::loops {

template <class Space, class T>
struct OutputRowLoss {
  using Team = TeamOf<Space>;
  std::int64_t outputs = 0;
  std::int32_t lanes = 0;
  OutputLoss function;
  const T* values = nullptr;
  const float* targets = nullptr;
  float* rows = nullptr;  ///< (batch)

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const std::int64_t begin = std::int64_t{team.league_rank()} * outputs;
    float* const sums = shared<float>(team, lanes);
    each_lane(team, lanes, [&](int lane) {
      float sum = 0.0F;
      for (std::int64_t i = begin + lane; i < begin + outputs; i += lanes)
        sum += flotilla::output_loss<DeviceMath>(function, values[i].value(), targets[i]);
      sums[lane] = sum;
    });
    tree_sum(team, lanes, sums);
    each_lane(team, 1, [&](int) { rows[team.league_rank()] = sums[0] / static_cast<float>(outputs); });
  }
  friend bool operator==(const OutputRowLoss&, const OutputRowLoss&) = default;
};

/// One team: adds the rows' losses to the sums.
template <class Space>
struct AddOutputRows {
  using Team = TeamOf<Space>;
  std::int64_t valid = 0;
  const float* rows = nullptr;
  float* sums = nullptr;

  static constexpr std::size_t scratch_bytes = sizeof(double) * team_lanes;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    double* const parts = shared<double>(team, team_lanes);
    each_lane(team, team_lanes, [&](int lane) {
      double sum = 0.0;
      for (std::int64_t n = lane; n < valid; n += team_lanes) sum += static_cast<double>(rows[n]);
      parts[lane] = sum;
    });
    tree_sum(team, team_lanes, parts);
    each_lane(team, 1, [&](int) {
      sums[sum_loss] += static_cast<float>(parts[0]);
      sums[sum_samples] += static_cast<float>(valid);
    });
  }
  friend bool operator==(const AddOutputRows&, const AddOutputRows&) = default;
};

/// `rows`: scratch of a float per row.
template <class Space, class T>
void output_loss(const Space& space, const OutputLossSpec& spec, const T* values,
                 const DeviceTargets& targets, float* rows, float* sums) {
  const std::int32_t lanes = spec.outputs <= 128 ? 32 : team_lanes;
  for_each_team(space, "output loss", targets.valid, lanes, sizeof(float) * static_cast<std::size_t>(lanes),
                OutputRowLoss<Space, T>{spec.outputs, lanes, spec.function, values, targets.values, rows});
  for_each_team(space, "output loss, added", 1, team_lanes, AddOutputRows<Space>::scratch_bytes,
                AddOutputRows<Space>{targets.valid, rows, sums});
}

template <class T>
struct OutputLossGradient {
  std::int64_t counted = 0;  ///< Values of the valid rows
  float share = 0.0F;        ///< Share of an output in its row's loss
  OutputLoss function;
  DeviceScalar<float> scale = 1.0F;
  const T* values = nullptr;
  const float* targets = nullptr;
  T* gradient = nullptr;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const float slope =
        i < counted ? output_loss_slope<DeviceMath>(function, values[i].value(), targets[i]) : 0.0F;
    gradient[i] = T::of(scale.get() * share * slope);
  }
  friend bool operator==(const OutputLossGradient&, const OutputLossGradient&) = default;
};

template <class Space, class T>
void output_loss_backward(const Space& space, const OutputLossSpec& spec, const T* values,
                          const DeviceTargets& targets, DeviceScalar<float> scale, T* gradient) {
  for_each(space, "output loss backward", spec.batch * spec.outputs,
           OutputLossGradient<T>{targets.valid * spec.outputs, 1.0F / static_cast<float>(spec.outputs),
                                 spec.function, scale, values, targets.values, gradient});
}

}  // namespace flotilla::loops
