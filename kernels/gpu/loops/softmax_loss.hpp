// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/gpu/loops/launch.hpp"
#include "kernels/gpu/loops/plan_scope.hpp"
#include "kernels/plan_checks.hpp"

/// Softmax and cross entropy (formulas: kernels/layers/softmax_loss.hpp): a team per row, then one team adds
/// the rows up.
namespace flotilla::loops {

/// The targets of a batch on the device.
struct DeviceTargets {
  const std::int32_t* labels = nullptr;  ///< (batch)
  std::int64_t valid = 0;
  const std::int32_t* other_labels = nullptr;  ///< (batch), or null
  DeviceScalar<float> other_share = 0.0F;
  const float* class_weights = nullptr;  ///< Null: all are 1

  KOKKOS_INLINE_FUNCTION float weight(std::int64_t row) const {
    return class_weights == nullptr ? 1.0F : class_weights[labels[row]];
  }
  friend bool operator==(const DeviceTargets&, const DeviceTargets&) = default;
};

/// Results of a row: loss, top 1, top 5, weight.
inline constexpr int row_numbers = 4;

template <class Space, class T>
struct RowLoss {
  using Team = TeamOf<Space>;
  std::int32_t classes = 0;
  std::int32_t lanes = 0;
  float smoothing = 0.0F;
  const T* logits = nullptr;
  DeviceTargets targets;
  float* normalisers = nullptr;  ///< (batch, 2): the largest logit m, Σ exp(x − m)
  float* rows = nullptr;         ///< (batch, row_numbers)

  /// Floats per lane: the largest value, Σ exp, Σ, and the number of classes before the label.
  static constexpr int lane_floats = 4;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const std::int64_t n = team.league_rank();
    const T* const row = logits + n * classes;
    const std::int32_t label = targets.labels[n];
    const float of_label = row[label].value();
    float* const largest = shared<float>(team, lane_floats * lanes);
    float* const exponentials = largest + lanes;
    float* const sums = exponentials + lanes;
    float* const before = sums + lanes;
    each_lane(team, lanes, [&](int lane) {
      float highest = -std::numeric_limits<float>::infinity();
      float sum = 0.0F;
      std::int32_t count = 0;  // classes that come before the label in order of falling logits
      for (std::int32_t c = lane; c < classes; c += lanes) {
        const float value = row[c].value();
        highest = value > highest ? value : highest;
        sum += value;
        if (value > of_label || (value == of_label && c < label)) ++count;
      }
      largest[lane] = highest;
      sums[lane] = sum;
      before[lane] = static_cast<float>(count);
    });
    for (int width = lanes / 2; width > 0; width /= 2) {
      each_lane(team, width, [&](int lane) {
        const float other = largest[lane + width];
        largest[lane] = other > largest[lane] ? other : largest[lane];
      });
    }
    // Apart from the largest: NaN and infinities become NaN here, and are seen.
    each_lane(team, lanes, [&](int lane) {
      float sum = 0.0F;
      for (std::int32_t c = lane; c < classes; c += lanes) sum += std::exp(row[c].value() - largest[0]);
      exponentials[lane] = sum;
    });
    tree_sum(team, lanes, exponentials);
    tree_sum(team, lanes, sums);
    tree_sum(team, lanes, before);
    each_lane(team, 1, [&](int) {
      normalisers[2 * n] = largest[0];
      normalisers[2 * n + 1] = exponentials[0];
      float wanted = of_label;
      const float other_share = targets.other_share.get();
      if (other_share > 0.0F) wanted += other_share * (row[targets.other_labels[n]].value() - of_label);
      const float mean = sums[0] / static_cast<float>(classes);
      const bool number = of_label == of_label;
      const float weight = targets.weight(n);
      rows[row_numbers * n] =
          weight * (std::log(exponentials[0]) + (1.0F - smoothing) * (largest[0] - wanted) +
                    smoothing * (largest[0] - mean));
      rows[row_numbers * n + 1] = number && before[0] < 1.0F ? 1.0F : 0.0F;
      rows[row_numbers * n + 2] = number && before[0] < 5.0F ? 1.0F : 0.0F;
      rows[row_numbers * n + 3] = weight;
    });
  }
  friend bool operator==(const RowLoss&, const RowLoss&) = default;
};

/// One team: adds the rows' numbers to the sums.
template <class Space>
struct AddRows {
  using Team = TeamOf<Space>;
  std::int64_t valid = 0;
  const float* rows = nullptr;
  float* sums = nullptr;

  static constexpr std::size_t scratch_bytes = sizeof(double) * row_numbers * team_lanes;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    double* const parts = shared<double>(team, row_numbers * team_lanes);
    each_lane(team, team_lanes, [&](int lane) {
      for (int k = 0; k < row_numbers; ++k) {
        double sum = 0.0;
        for (std::int64_t n = lane; n < valid; n += team_lanes)
          sum += static_cast<double>(rows[row_numbers * n + k]);
        parts[k * team_lanes + lane] = sum;
      }
    });
    for (int k = 0; k < row_numbers; ++k) tree_sum(team, team_lanes, parts + k * team_lanes);
    each_lane(team, 1, [&](int) {
      sums[sum_loss] += static_cast<float>(parts[0]);
      sums[sum_top1] += static_cast<float>(parts[team_lanes]);
      sums[sum_top5] += static_cast<float>(parts[2 * team_lanes]);
      sums[sum_samples] += static_cast<float>(valid);
      sums[sum_weights] += static_cast<float>(parts[3 * team_lanes]);
    });
  }
  friend bool operator==(const AddRows&, const AddRows&) = default;
};

template <class T>
struct LossGradient {
  std::uint32_t classes = 0;
  float smoothing = 0.0F;
  DeviceScalar<float> scale = 1.0F;
  const T* logits = nullptr;
  DeviceTargets targets;
  const float* normalisers = nullptr;
  T* dlogits = nullptr;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const std::uint32_t n = static_cast<std::uint32_t>(i) / classes;
    const auto c = static_cast<std::int32_t>(static_cast<std::uint32_t>(i) % classes);
    if (n >= static_cast<std::uint64_t>(targets.valid)) {
      dlogits[i] = T::of(0.0F);
      return;
    }
    const float other_share = targets.other_share.get();
    float wanted = c == targets.labels[n] ? 1.0F - other_share : 0.0F;
    if (other_share > 0.0F && c == targets.other_labels[n]) wanted += other_share;
    const float target = smoothing / static_cast<float>(classes) + (1.0F - smoothing) * wanted;
    const float probability = std::exp(logits[i].value() - normalisers[2 * n]) / normalisers[2 * n + 1];
    dlogits[i] = T::of(targets.weight(n) * scale.get() * (probability - target));
  }
  friend bool operator==(const LossGradient&, const LossGradient&) = default;
};

/// forward() uploads the labels by DeviceMemory::upload, backward() reads those.
template <class Space, class T>
class SoftmaxLossPlan : public Loss {
 public:
  SoftmaxLossPlan(const PlanScope<Space>& scope, const SoftmaxLossSpec& spec)
      : scope_(scope), spec_(spec), rows_(static_cast<std::size_t>(spec.batch)) {
    check_spec(spec);
    require(spec.classes <= 0x7FFFFFFF, "there are too many classes: ", spec.classes);
    normalisers_ = scope.memory.allocate(2 * rows_);
    labels_ = scope.memory.allocate(rows_);
    other_labels_ = scope.memory.allocate(rows_);
    if (spec.class_weights.empty()) return;
    class_weights_ = scope.memory.allocate(spec.class_weights.size());
    scope.memory.upload(spec.class_weights, class_weights_.span());
  }

  void forward(const Tensor& logits, const Targets& targets, DeviceSpan<float> sums) override {
    check_loss(spec_, logits, targets);
    require(sums.size() == loss_sums, "the loss adds to ", loss_sums, " sums, got ", sums.size());
    upload(targets.labels, labels_);
    if (targets.other_share > 0.0F) upload(targets.other_labels, other_labels_);
    float* const row_sums = scope_.scratch.floats(row_numbers * rows_);
    const auto classes = static_cast<std::int32_t>(spec_.classes);
    const std::int32_t lanes = classes <= 128 ? 32 : team_lanes;
    using Row = RowLoss<Space, T>;
    for_each_team(scope_.space, "softmax loss", targets.valid, lanes,
                  sizeof(float) * Row::lane_floats * static_cast<std::size_t>(lanes),
                  Row{classes, lanes, spec_.label_smoothing, elements<T>(logits), on_device(targets),
                      normalisers_.span().address(), row_sums});
    for_each_team(scope_.space, "softmax loss, added", 1, team_lanes, AddRows<Space>::scratch_bytes,
                  AddRows<Space>{targets.valid, row_sums, sums.address()});
  }
  void backward(const Tensor& logits, const Targets& targets, DeviceScalar<float> scale,
                Tensor& dlogits) override {
    check_loss(spec_, logits, targets);
    check_shape("the logits' gradient", dlogits, logits.shape());
    const std::int64_t size = spec_.batch * spec_.classes;
    require(size <= 0x7FFFFFFF, "logits of ", size, " values are too many for 32-bit indices");
    const DeviceTargets labels = on_device(targets);
    for_each(scope_.space, "softmax loss backward", size,
             LossGradient<T>{static_cast<std::uint32_t>(spec_.classes), spec_.label_smoothing,
                             late(scope_.space, scale), elements<T>(logits), labels,
                             normalisers_.span().address(), elements<T>(dlogits)});
  }

 private:
  /// Devices copy floats; the reader interprets their bits.
  void upload(std::span<const std::int32_t> labels, Storage& to) {
    const std::size_t count = std::min(labels.size(), rows_);
    scope_.memory.upload({reinterpret_cast<const float*>(labels.data()), count}, to.span().subspan(0, count));
  }
  DeviceTargets on_device(const Targets& targets) {
    return {.labels = reinterpret_cast<const std::int32_t*>(labels_.span().address()),
            .valid = targets.valid,
            .other_labels = reinterpret_cast<const std::int32_t*>(other_labels_.span().address()),
            .other_share = late(scope_.space, targets.other_share),
            .class_weights = spec_.class_weights.empty() ? nullptr : class_weights_.span().address()};
  }

  PlanScope<Space> scope_;
  SoftmaxLossSpec spec_;
  std::size_t rows_ = 0;
  Storage normalisers_;  // (rows, 2): each row's largest logit m and Σ exp(x − m)
  Storage labels_;
  Storage other_labels_;
  Storage class_weights_;  // (classes); empty: all are 1
};

}  // namespace flotilla::loops
