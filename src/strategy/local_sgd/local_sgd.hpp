// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/strategy/gradient_sums.hpp"
#include "src/strategy/local_sgd/outer_step.hpp"
#include "src/strategy/local_sgd/period.hpp"
#include "src/strategy/metric_sync.hpp"
#include "src/strategy/model_update.hpp"
#include "src/strategy/reduce/all_reduce_plan.hpp"

namespace flotilla {

/// Local SGD: every worker (with group_all_reduce: every group of them) takes optimizer steps of its own, and
/// whenever the period says so the parameters become the mean of all workers' (docs/fleet.md, "Local SGD"),
/// or what an outer step makes of that mean. Between two averagings, workers of different groups do not wait
/// for each other.
class LocalSgd : public Strategy {
 public:
  struct Parts {
    Device& device;
    const mpi::Communicator& workers;
    const mpi::Communicator& step_workers;  ///< Those over which `sums` sums: a group, or all
    GradientSums& sums;                     ///< Over the workers that step together
    ModelUpdate& update;
    Reduction& averaging;  ///< All-reduce of parameters over all workers
    mpi::Watchdog& watchdog;
    Traffic& traffic;
    Model model;      ///< This worker's; statistics follow the parameters in one array
    Model consensus;  ///< Room for a second one, laid out as `model`; `averaging` can reach both
    std::unique_ptr<Period> period;
    const LocalSgdConfig& config;
    KeptValues frozen;              ///< Parameters that averaging leaves alone
    std::span<const int> groups{};  ///< Alike::groups
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
  Alike alike() const override;
  Pace pace() const override { return {.most_steps_apart = parts_.period->length()}; }
  StrategyDescription description() const override;

 private:
  /// Whether all workers take the step together, with one gradient.
  bool all_together_in(std::int64_t step) const;
  bool together_in(std::int64_t step) const;  ///< Whether this worker does with others
  bool stops_after(const StepInfo& info, bool group_stops);
  StepOutcome synchronise(const StepInfo& info, bool averages);
  void average(const StepInfo& info);
  void average_values(const Model& model);
  void reduce_values(const Model& model);
  void all_reduce(mpi::Collectives& collectives, DeviceSpan<float> values);
  void average_slots();
  /// The all-reduce without a half wire.
  mpi::Collectives& exact() const { return half_wire_ ? *parts_.averaging.exact : parts_.averaging.first(); }
  bool averages_statistics() const { return parts_.config.statistics == LocalStatistics::average; }

  Parts parts_;
  MetricSync metrics_;
  bool half_wire_;
  OuterStep outer_;
  bool post_local_;  ///< All workers step together before begin_step
  std::vector<OptimizerSlot> slots_;
  double samples_ = 0.0;    ///< Samples of all workers since the last averaging
  double loss_ = 0.0;       ///< Sum of the losses of those samples
  std::int64_t steps_ = 0;  ///< Done
  bool alike_ = true;       ///< All workers hold equal models
  bool parameters_alike_ = true;
  bool slots_alike_ = true;          ///< All workers hold equal slots of the optimizer
  std::vector<Storage> slot_means_;  ///< Means of the optimizer's slots, for checkpoints
};

}  // namespace flotilla
