// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/flat/functors.hpp"
#include "kernels/gpu/loops/elements.hpp"
#include "kernels/gpu/loops/flat_chunks.hpp"

namespace flotilla::loops {

/// One rule on the chunks of all ranges: a team per chunk.
template <class Space, class Elements, class Functor>
struct FlatUpdate {
  using Team = TeamOf<Space>;
  Functor functor;
  const FlatChunk* chunks = nullptr;
  float learning_rate = 0.0F;
  float gradient_scale = 1.0F;
  Decay decay = Decay::coupled;
  const UpdateNumbers* numbers = nullptr;  ///< Instead of learning_rate and gradient_scale, and corrections
  const float* rate_factors = nullptr;     ///< Rate factors of ranges, instead of the chunks'; null: those
  bool scales = true;                      ///< Scales by the gradient_scale of `numbers`
  HalfCopy halves;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    if (numbers != nullptr && numbers->taken == 0.0F) return;
    const FlatChunk chunk = chunks[team.league_rank()];
    Functor own = functor;
    float rate = learning_rate;
    float scale = gradient_scale;
    if (numbers != nullptr) {
      rate = numbers->learning_rate;
      if (scales) scale = numbers->gradient_scale;
      if constexpr (requires { own.moments; }) {
        own.moments.correction1 = numbers->correction1;
        own.moments.correction2 = numbers->correction2;
      }
    }
    const float factor = rate_factors == nullptr ? chunk.rate_factor : rate_factors[chunk.range];
    rules::set_constants(own.in, scale, rate * factor, decay, chunk.weight_decay);
    std::uint16_t* const rounded = halves.values.address();
    each_lane(team, chunk.count, [&](int i) {
      const std::int64_t at = chunk.begin + i;
      own(at);
      if (rounded != nullptr) rounded[at] = half_of(own.in.p[at]);
    });
  }

  KOKKOS_INLINE_FUNCTION std::uint16_t half_of(float value) const {
    return halves.precision == Precision::float16 ? Elements::Float16::of(value).bits
                                                  : Elements::Bfloat16::of(value).bits;
  }
  friend bool operator==(const FlatUpdate&, const FlatUpdate&) = default;
};

/// partials[chunk] ← Σ term(i), in an order that depends on the chunk's size only.
template <class Space, class Term>
struct FlatSums {
  using Team = TeamOf<Space>;
  Term term;
  const FlatChunk* chunks = nullptr;
  double* partials = nullptr;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const FlatChunk chunk = chunks[team.league_rank()];
    double* const sums = shared<double>(team, team_lanes);
    each_lane(team, team_lanes, [&](int lane) {
      double sum = 0.0;
      for (std::int32_t i = lane; i < chunk.count; i += team_lanes) sum += term(chunk.begin + i);
      sums[lane] = sum;
    });
    tree_sum(team, team_lanes, sums);
    each_lane(team, 1, [&](int) { partials[team.league_rank()] = sums[0]; });
  }
  friend bool operator==(const FlatSums&, const FlatSums&) = default;
};

/// factors[range] ← the range's rate factor by its trust ratio, from the sums of squares of its chunks, which
/// are added in their order. The first chunk of a range does it.
struct RateFactors {
  TrustRatio ratio;
  const FlatChunk* chunks = nullptr;
  std::int64_t count = 0;
  const double* parameters = nullptr;  ///< One sum per chunk
  const double* gradients = nullptr;
  float gradient_scale = 1.0F;
  const UpdateNumbers* numbers = nullptr;  ///< For lars: replaces gradient_scale
  float* factors = nullptr;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t first) const {
    const FlatChunk chunk = chunks[first];
    if (first > 0 && chunks[first - 1].range == chunk.range) return;
    double parameter_sum = 0.0;
    double gradient_sum = 0.0;
    for (std::int64_t i = first; i < count && chunks[i].range == chunk.range; ++i) {
      parameter_sum += parameters[i];
      gradient_sum += gradients[i];
    }
    const float scale =
        numbers != nullptr && ratio.scales_gradients() ? numbers->gradient_scale : gradient_scale;
    const double gradient_norm = std::sqrt(gradient_sum) * static_cast<double>(scale < 0.0F ? -scale : scale);
    factors[chunk.range] = chunk.rate_factor * ratio(std::sqrt(parameter_sum), gradient_norm,
                                                     static_cast<double>(chunk.weight_decay));
  }
  friend bool operator==(const RateFactors&, const RateFactors&) = default;
};

/// A functor of flat/functors.hpp on every value.
template <class Functor>
struct FlatSweep {
  Functor functor;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { functor(i); }
  friend bool operator==(const FlatSweep&, const FlatSweep&) = default;
};

/// FlatMath on a device: each update is one launch over the chunks of all ranges. The table of chunks is
/// uploaded when the ranges change, which is rare.
template <class Space, class Elements>
class DeviceFlat : public FlatMath, public FlatUpdates {
 public:
  DeviceFlat(const Space& space, LoopMemory memory)
      : space_(space),
        update_table_(space, memory),
        sum_table_(space, memory),
        norm_table_(space, memory),
        rate_table_(space, memory),
        partials_(memory),
        rate_factors_(memory) {}

  void fill(DeviceSpan<float> x, float value) override {
    sweep("fill", x.size(), flat::Fill{x.address(), value});
  }
  void copy(DeviceSpan<const float> from, DeviceSpan<float> to) override {
    require(from.size() == to.size(), "copy from ", from.size(), " to ", to.size(), " values");
    sweep("copy", to.size(), flat::Copy{from.address(), to.address()});
  }
  void scale(DeviceSpan<float> x, float factor) override {
    sweep("scale", x.size(), flat::Scale{x.address(), factor});
  }
  void axpy(float factor, DeviceSpan<const float> x, DeviceSpan<float> y) override {
    require(x.size() == y.size(), "axpy from ", x.size(), " to ", y.size(), " values");
    sweep("axpy", y.size(), flat::Axpy{x.address(), y.address(), factor});
  }
  double sum_of_squares(DeviceSpan<const float> x) override {
    return sum(flat::Square{x.address()}, x.size());
  }
  void norms(DeviceSpan<const float> x, std::span<const FlatRange> ranges, std::span<double> norms) override {
    require(ranges.size() == norms.size(), "norms of ", ranges.size(), " ranges into ", norms.size());
    sums(flat::Square{x.address()}, ranges, norms);
    for (double& norm : norms) norm = std::sqrt(norm);
  }
  bool all_finite(DeviceSpan<const float> x) override {
    return sum(flat::NotFinite{x.address()}, x.size()) == 0.0;
  }
  void pack_sums(DeviceSpan<const float> first, DeviceSpan<const float> second,
                 DeviceSpan<const float> shifts, DeviceSpan<double> sums) override {
    sweep("sums of a batch", first.size(), flat::pack_sums(first, second, shifts, sums));
  }
  void unpack_sums(DeviceSpan<const double> sums, DeviceSpan<const float> shifts, std::int64_t batches,
                   DeviceSpan<float> first, DeviceSpan<float> second) override {
    sweep("moments of batches", first.size(), flat::unpack_sums(sums, shifts, batches, first, second));
  }

  void update(const UpdateInput& in, const UpdateRule& rule, const UpdateState& state) override {
    const FlatTable<Space>& table = update_table_.of_updates(in.ranges);
    flat::with_functor(in, rule, state, [&](auto functor) {
      const UpdateInput given = late(in, functor);
      launch(given, functor, table, nullptr, true);
    });
  }
  void update_by_norms(const UpdateInput& in, const TrustRatio& ratio, const UpdateRule& rule,
                       const UpdateState& state) override {
    const FlatTable<Space>& table = rate_table_.of_each(in.ranges, flat_update_values);
    const FlatTable<Space>& norm_table = norm_table_.of_each(in.ranges, flat_sum_values);
    const auto chunks = static_cast<std::size_t>(norm_table.chunks());
    auto* const sums = reinterpret_cast<double*>(partials_.floats(4 * chunks));
    float* const factors = rate_factors_.floats(in.ranges.size());
    flat::with_functor(in, rule, state, [&](auto functor) {
      const UpdateInput given = late(in, functor);
      find_rate_factors(given, ratio, norm_table, sums, factors);
      launch(given, functor, table, factors, ratio.scales_gradients());
    });
  }

 private:
  template <class Functor>
  void sweep(const char* name, std::size_t size, const Functor& functor) {
    for_each(space_, name, static_cast<std::int64_t>(size), FlatSweep<Functor>{functor});
  }

  /// If the queue keeps work for later, moves the numbers that change from step to step from the update and
  /// its functor to device memory: the recorded launch is the same in every step then. To be called when
  /// tables and scratch are there: making them submits the queue.
  template <class Functor>
  UpdateInput late(UpdateInput in, Functor& functor) {
    if (in.numbers == nullptr) {
      UpdateNumbers numbers{.learning_rate = in.learning_rate, .gradient_scale = in.gradient_scale};
      if constexpr (requires { functor.moments; }) {
        numbers.correction1 = functor.moments.correction1;
        numbers.correction2 = functor.moments.correction2;
      }
      in.numbers = Queue<Space>::late_number(space_, numbers);
    }
    if (in.numbers == nullptr) return in;
    in.learning_rate = 0.0F;
    in.gradient_scale = 1.0F;
    if constexpr (requires { functor.moments; })
      functor.moments.correction1 = functor.moments.correction2 = 1.0F;
    return in;
  }

  template <class Functor>
  void launch(const UpdateInput& in, const Functor& functor, const FlatTable<Space>& table,
              const float* factors, bool scales) {
    for_each_team(
        space_, "update", table.chunks(), team_lanes, 0,
        FlatUpdate<Space, Elements, Functor>{functor, table.address(), in.learning_rate, in.gradient_scale,
                                             in.decay, in.numbers, factors, scales, in.halves});
  }

  /// factors[range] ← the range's rate factor. @param sums Scratch of two for each chunk
  void find_rate_factors(const UpdateInput& in, const TrustRatio& ratio, const FlatTable<Space>& table,
                         double* sums, float* factors) {
    double* const gradients = sums + table.chunks();
    sum_chunks(flat::Square{in.parameters.address()}, table, sums);
    sum_chunks(flat::Square{in.gradients.address()}, table, gradients);
    for_each(space_, "rate factors", table.chunks(),
             RateFactors{ratio, table.address(), table.chunks(), sums, gradients, in.gradient_scale,
                         in.numbers, factors});
  }

  /// partials[i] ← the sum over chunk i.
  template <class Term>
  void sum_chunks(const Term& term, const FlatTable<Space>& table, double* partials) {
    for_each_team(space_, "sums", table.chunks(), team_lanes, sizeof(double) * team_lanes,
                  FlatSums<Space, Term>{term, table.address(), partials});
  }

  template <class Term>
  double sum(const Term& term, std::size_t size) {
    const FlatRange all[] = {{.offset = 0, .count = static_cast<std::int64_t>(size)}};
    double result[] = {0.0};
    sums(term, all, result);
    return result[0];
  }

  /// results[i] ← the sum over ranges[i]. Waits for the device.
  template <class Term>
  void sums(const Term& term, std::span<const FlatRange> ranges, std::span<double> results) {
    const FlatTable<Space>& table = sum_table_.of_each(ranges, flat_sum_values);
    const auto chunks = static_cast<std::size_t>(table.chunks());
    auto* const partials = reinterpret_cast<double*>(partials_.floats(2 * chunks));
    sum_chunks(term, table, partials);
    host_partials_.resize(chunks);
    copy_to_host(space_, partials, std::span(host_partials_));
    std::size_t chunk = 0;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      results[i] = 0.0;
      for (std::int64_t left = ranges[i].count; left > 0; left -= flat_sum_values)
        results[i] += host_partials_[chunk++];
    }
  }

  Space space_;
  FlatTable<Space> update_table_;
  FlatTable<Space> sum_table_;
  FlatTable<Space> norm_table_;  ///< Chunks of updates by norms, cut for the norms
  FlatTable<Space> rate_table_;  ///< Chunks of updates by norms, cut for the values
  Scratch partials_;
  Scratch rate_factors_;
  std::vector<double> host_partials_;
};

}  // namespace flotilla::loops
