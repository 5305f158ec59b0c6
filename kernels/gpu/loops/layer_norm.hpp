// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/gpu/loops/column_sums.hpp"
#include "kernels/gpu/loops/plan_scope.hpp"
#include "kernels/plan_checks.hpp"

/// Layer norm (formulas: kernels/layers/layer_norm.hpp): a team per row, and sums over rows for the gradients
/// of scale and shift.
namespace flotilla::loops {

template <class Space, class T>
struct NormaliseRow {
  using Team = TeamOf<Space>;
  std::int64_t columns = 0;
  float epsilon = 0.0F;
  const T* x = nullptr;
  const float* scale = nullptr;
  const float* shift = nullptr;
  float* moments = nullptr;  ///< (rows, 2): mean, 1 / √(variance + ε)
  T* y = nullptr;

  static constexpr std::size_t scratch_bytes = sizeof(float) * team_lanes;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const std::int64_t n = team.league_rank();
    const T* const row = x + n * columns;
    float* const parts = shared<float>(team, team_lanes);
    each_lane(team, team_lanes, [&](int lane) {
      float sum = 0.0F;
      for (std::int64_t c = lane; c < columns; c += team_lanes) sum += row[c].value();
      parts[lane] = sum;
    });
    tree_sum(team, team_lanes, parts);
    each_lane(team, 1, [&](int) { moments[2 * n] = parts[0] / static_cast<float>(columns); });
    each_lane(team, team_lanes, [&](int lane) {
      float sum = 0.0F;
      for (std::int64_t c = lane; c < columns; c += team_lanes) {
        const float off = row[c].value() - moments[2 * n];
        sum += off * off;
      }
      parts[lane] = sum;
    });
    tree_sum(team, team_lanes, parts);
    each_lane(team, 1, [&](int) {
      moments[2 * n + 1] = 1.0F / std::sqrt(parts[0] / static_cast<float>(columns) + epsilon);
    });
    each_lane(team, team_lanes, [&](int lane) {
      for (std::int64_t c = lane; c < columns; c += team_lanes)
        y[n * columns + c] =
            T::of((row[c].value() - moments[2 * n]) * moments[2 * n + 1] * scale[c] + shift[c]);
    });
  }
  friend bool operator==(const NormaliseRow&, const NormaliseRow&) = default;
};

/// Sums of dy · x̂ and dy.
template <class T, int V>
struct LayerNormSums {
  const T* x = nullptr;
  const T* dy = nullptr;
  const float* moments = nullptr;

  struct Row {
    Pack<T, V> x, dy;
  };
  KOKKOS_INLINE_FUNCTION void operator()(const Tiles& tiles, const LanePlace& at, std::int64_t,
                                         Floats<V>& products, Floats<V>& sums) const {
    const std::int64_t columns = std::int64_t{tiles.packs} * V;
    const std::int64_t column = std::int64_t{at.pack} * V;
    walk<2>(
        tiles, at,
        [&](std::int64_t row) {
          return Row{load<V>(x, row * columns + column), load<V>(dy, row * columns + column)};
        },
        [&](std::int64_t row, const Row& read) {
          const Floats<V> values = floats(read.x);
          const Floats<V> gradient = floats(read.dy);
          for (int v = 0; v < V; ++v) {
            products[v] += gradient[v] * ((values[v] - moments[2 * row]) * moments[2 * row + 1]);
            sums[v] += gradient[v];
          }
        });
  }
  friend bool operator==(const LayerNormSums&, const LayerNormSums&) = default;
};

struct StoreLayerNormGradients {
  float* scale = nullptr;
  float* shift = nullptr;
  bool accumulate = false;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t column, double product, double sum) const {
    scale[column] = static_cast<float>(product) + (accumulate ? scale[column] : 0.0F);
    shift[column] = static_cast<float>(sum) + (accumulate ? shift[column] : 0.0F);
  }
  friend bool operator==(const StoreLayerNormGradients&, const StoreLayerNormGradients&) = default;
};

template <class Space, class T>
struct DifferentiateRow {
  using Team = TeamOf<Space>;
  std::int64_t columns = 0;
  const T* x = nullptr;
  const float* scale = nullptr;
  const float* moments = nullptr;
  const T* dy = nullptr;
  T* dx = nullptr;

  static constexpr std::size_t scratch_bytes = sizeof(float) * 2 * team_lanes;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const std::int64_t n = team.league_rank();
    const std::int64_t first = n * columns;
    const float mean = moments[2 * n];
    const float slope = moments[2 * n + 1];
    float* const sums = shared<float>(team, 2 * team_lanes);
    float* const products = sums + team_lanes;
    each_lane(team, team_lanes, [&](int lane) {
      float sum = 0.0F;
      float product = 0.0F;
      for (std::int64_t c = lane; c < columns; c += team_lanes) {
        const float g = scale[c] * dy[first + c].value();
        sum += g;
        product += g * ((x[first + c].value() - mean) * slope);
      }
      sums[lane] = sum;
      products[lane] = product;
    });
    tree_sum(team, team_lanes, sums);
    tree_sum(team, team_lanes, products);
    each_lane(team, team_lanes, [&](int lane) {
      const float share = 1.0F / static_cast<float>(columns);
      for (std::int64_t c = lane; c < columns; c += team_lanes) {
        const float normal = (x[first + c].value() - mean) * slope;
        const float g = scale[c] * dy[first + c].value();
        dx[first + c] = T::of(slope * (g - share * sums[0] - normal * share * products[0]));
      }
    });
  }
  friend bool operator==(const DifferentiateRow&, const DifferentiateRow&) = default;
};

template <class Space, class T>
class LayerNormPlan : public LayerNorm {
 public:
  LayerNormPlan(const PlanScope<Space>& scope, const LayerNormSpec& spec) : scope_(scope), spec_(spec) {
    check_spec(spec);
    moments_ = scope.memory.allocate(2 * static_cast<std::size_t>(spec.rows));
  }

  void forward(const Tensor& x, ScaleShift w, Tensor& y) override {
    check_layer_norm(spec_, {&x, &y}, w);
    using Row = NormaliseRow<Space, T>;
    for_each_team(scope_.space, "layer norm", spec_.rows, team_lanes, Row::scratch_bytes,
                  Row{spec_.columns, spec_.epsilon, elements<T>(x), w.first.address(), w.second.address(),
                      moments_.span().address(), elements<T>(y)});
  }
  /// The gradients of scale and shift are summed first: dx may be dy.
  void backward(const Tensor& x, ScaleShift w, const Tensor& dy, ScaleShiftGradients gradients,
                Tensor& dx) override {
    check_layer_norm(spec_, {&x, &dy, &dx}, w);
    check_layer_norm(spec_, {}, gradients);
    const float* const moments = moments_.span().address();
    with_width<full_pack<T>>(spec_.columns, [&]<int V>(Width<V>) {
      const Tiles tiles = tiles_of(spec_.rows, spec_.columns / V, sum_teams);
      sum_columns<V>(
          scope_.space, "layer norm gradients", tiles,
          LayerNormSums<T, V>{elements<T>(x), elements<T>(dy), moments},
          scope_.scratch.floats(partial_floats(tiles, spec_.columns)),
          StoreLayerNormGradients{gradients.first.address(), gradients.second.address(), spec_.accumulate});
    });
    using Row = DifferentiateRow<Space, T>;
    for_each_team(
        scope_.space, "layer norm backward", spec_.rows, team_lanes, Row::scratch_bytes,
        Row{spec_.columns, elements<T>(x), w.first.address(), moments, elements<T>(dy), elements<T>(dx)});
  }

 private:
  PlanScope<Space> scope_;
  LayerNormSpec spec_;
  Storage moments_;  // (rows, 2): mean, 1 / √(variance + ε)
};

}  // namespace flotilla::loops
