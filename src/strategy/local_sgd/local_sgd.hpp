// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/config/config.hpp"
#include "src/strategy/gradient_sums.hpp"
#include "src/strategy/local_sgd/fragments.hpp"
#include "src/strategy/local_sgd/outer_step.hpp"
#include "src/strategy/local_sgd/period.hpp"
#include "src/strategy/metric_sync.hpp"
#include "src/strategy/model_update.hpp"
#include "src/strategy/reduce/all_reduce_plan.hpp"
#include "src/strategy/state_array.hpp"

namespace flotilla {

/// Local SGD: every worker (with group_all_reduce: every group of them) takes optimizer steps of its own, and
/// whenever the period says so the parameters become the mean of all workers' (docs/fleet.md, "Local SGD"),
/// or the result of an outer step on that mean. Between two averagings, workers of different groups do not
/// wait for each other.
///
/// With F fragments one of them is averaged every period / F steps. With overlap_steps τ its values after
/// step t are averaged while training goes on; after step t + τ each worker sets x ← α x + (1 − α) θ, with x
/// its own values then, θ the mean or the result of the outer step, and α = mix (Streaming DiLoCo, Douillard
/// et al. 2025, algorithm 2). With eager updates the sum of the workers' differences is on its way for a
/// whole period (OuterStep), and no two workers need ever hold equal parameters.
class LocalSgd : public Strategy {
 public:
  struct Parts {
    Device& device;
    const mpi::Communicator& workers;
    const mpi::Communicator& step_workers;  ///< Workers over which `sums` sums: a group, or all
    GradientSums& sums;                     ///< Over the workers that step together
    ModelUpdate& update;
    Reduction& averaging;  ///< All-reduce of parameters over all workers
    mpi::Watchdog& watchdog;
    Traffic& traffic;
    Model model;  ///< This worker's model; statistics follow the parameters in one array
    AveragingRoom room;
    std::unique_ptr<Period> period;
    const LocalSgdConfig& config;
    KeptValues frozen;              ///< Parameters that averaging leaves alone
    std::span<const int> groups{};  ///< Replicated::groups
    bool speaks = true;  ///< Its loss sums are reported: one worker of a group, which has the sums of all
  };
  explicit LocalSgd(Parts parts);

  void start() override;
  void begin_step(bool asks_to_stop) override;
  StepOutcome exchange(const StepInfo& info, const StepOutcome& own) override;
  Model consensus() override;
  StrategyState state() override;
  std::vector<StateArray> live() override;
  void resume(const Resumption& resumed) override;
  Replicated replicated() const override;
  Pace pace() const override;
  StrategyDescription description() const override;

 private:
  class Untouched;
  /// Sums over all workers since the last averaging, as far as they have been exchanged.
  struct Since {
    double samples = 0.0;
    double loss = 0.0;  ///< Sum of the losses of those samples
    double computing_s = 0.0;
    double averaging_s = 0.0;         ///< Of the last averaging
    std::int64_t last_averaging = 0;  ///< Steps done
  };

  /// Whether all workers take the step together, with one gradient.
  bool all_together_in(std::int64_t step) const;
  bool together_in(std::int64_t step) const;  ///< Whether this worker does with others
  bool stops_after(const StepInfo& info, bool group_stops);
  StepOutcome synchronise(const StepInfo& info, bool averages);
  void average(const StepInfo& info);
  void take_average(const Fragment& fragment, const StepInfo& info);
  void launch(const StepInfo& info);
  void send(mpi::Collectives& collectives, DeviceSpan<float> values, std::size_t statistics = 0);
  void step_eagerly(const StepInfo& info);
  void await(const StepInfo& info);
  void arrive();
  void land(const StepInfo& info);
  void mix(const Model& average, const Model& own);
  void average_values(const Model& model, const Fragment& fragment);
  void reduce_values(const Model& model, const Fragment& fragment);
  void all_reduce(mpi::Collectives& collectives, DeviceSpan<float> values, Sent what,
                  std::size_t statistics = 0);
  void average_slots();
  bool is_eager() const { return parts_.config.streaming.eager && parts_.workers.size() > 1; }
  /// Whether sums are on their way while training goes on.
  bool overlaps() const { return parts_.config.streaming.overlap_steps > 0 || is_eager(); }
  /// The fragment that is on its way.
  const Fragment& flying() const {
    const std::size_t count = parts_.room.fragments.size();
    return parts_.room.fragments[(next_fragment_ + count - 1) % count];
  }
  /// The parameters of a fragment that all workers had after its last average.
  DeviceSpan<float> anchor_of(const Fragment& fragment) const {
    return outer_.anchor().subspan(fragment.begin, fragment.size());
  }
  /// The fragment that is the whole model.
  Fragment whole() const { return {0, parts_.model.parameters.size(), averages_statistics()}; }
  /// The all-reduce in float32.
  mpi::Collectives& exact() const { return rounds_ ? *parts_.averaging.exact : parts_.averaging.first(); }
  bool averages_statistics() const { return parts_.config.statistics == LocalStatistics::average; }

  Parts parts_;
  MetricSync metrics_;
  bool rounds_;  ///< Averagings are over a wire that rounds
  OuterStep outer_;
  bool post_local_;  ///< All workers step together before begin_step
  /// The optimizer's; with eager updates the outer one's too, which is each worker's own.
  std::vector<OptimizerSlot> slots_;
  std::size_t next_fragment_ = 0;
  std::optional<Flight> flight_;
  Since since_;
  std::int64_t begin_ns_ = 0;  ///< When the step began
  std::int64_t steps_ = 0;     ///< Done
  bool alike_ = true;          ///< All workers hold equal models
  bool parameters_alike_ = true;
  bool slots_alike_ = true;  ///< All workers hold equal slots of the optimizer
};

}  // namespace flotilla
