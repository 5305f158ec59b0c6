// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gpu/loops/activations.hpp"
#include "kernels/plan_checks.hpp"

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
      sums[sum_weights] += static_cast<float>(valid);
    });
  }
  friend bool operator==(const AddOutputRows&, const AddOutputRows&) = default;
};

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

/// forward() uploads the targets by DeviceMemory::upload, backward() reads those.
template <class Space, class T>
class OutputLossPlan : public Loss {
 public:
  OutputLossPlan(const PlanScope<Space>& scope, const OutputLossSpec& spec) : scope_(scope), spec_(spec) {
    check_spec(spec);
    targets_ = scope.memory.allocate(static_cast<std::size_t>(spec.batch * spec.outputs));
  }

  void forward(const Tensor& outputs, const Targets& targets, DeviceSpan<float> sums) override {
    check_loss(spec_, outputs, targets);
    require(sums.size() == loss_sums, "the loss adds to ", loss_sums, " sums, got ", sums.size());
    const auto count = static_cast<std::size_t>(targets.valid * spec_.outputs);
    scope_.memory.upload(targets.values.first(count), targets_.span().subspan(0, count));
    float* const rows = scope_.scratch.floats(static_cast<std::size_t>(spec_.batch));
    const std::int32_t lanes = spec_.outputs <= 128 ? 32 : team_lanes;
    for_each_team(scope_.space, "output loss", targets.valid, lanes,
                  sizeof(float) * static_cast<std::size_t>(lanes),
                  OutputRowLoss<Space, T>{spec_.outputs, lanes, spec_.function, elements<T>(outputs),
                                          targets_.span().address(), rows});
    for_each_team(scope_.space, "output loss, added", 1, team_lanes, AddOutputRows<Space>::scratch_bytes,
                  AddOutputRows<Space>{targets.valid, rows, sums.address()});
  }
  void backward(const Tensor& outputs, const Targets& targets, DeviceScalar<float> scale,
                Tensor& gradient) override {
    check_loss(spec_, outputs, targets);
    check_shape("the outputs' gradient", gradient, outputs.shape());
    for_each(scope_.space, "output loss backward", spec_.batch * spec_.outputs,
             OutputLossGradient<T>{targets.valid * spec_.outputs, 1.0F / static_cast<float>(spec_.outputs),
                                   spec_.function, late(scope_.space, scale), elements<T>(outputs),
                                   targets_.span().address(), elements<T>(gradient)});
  }

 private:
  PlanScope<Space> scope_;
  OutputLossSpec spec_;
  Storage targets_;
};

}  // namespace flotilla::loops
