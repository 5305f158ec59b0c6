// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "models/half_parameters.hpp"
#include "mpi/all_reduce/communication_lanes.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/optim/loss_scale.hpp"
#include "src/optim/optimizer.hpp"
#include "src/strategy/buckets.hpp"
#include "src/strategy/delayed_metrics.hpp"
#include "src/strategy/kept_values.hpp"
#include "src/strategy/reduce/all_reduce_plan.hpp"
#include "src/strategy/reproducible.hpp"
#include "src/strategy/strategy.hpp"
#include "src/strategy/weight_average.hpp"

namespace flotilla {

/// Synchronous data parallelism: gradients are summed over the workers, bucket by bucket while backward goes
/// on, divided by the workers, and every worker takes the same optimizer step (docs/fleet.md, "Synchronous
/// training"). Running statistics follow the mean of the workers' step statistics, so that all hold the same
/// ones.
class SyncAllReduce : public Strategy {
 public:
  struct Parts {
    Device& device;
    const mpi::Communicator& workers;
    Reduction& reduction;            ///< Of gradients
    mpi::CommunicationLanes* lanes;  ///< Null: all-reduce in the calling thread (everything fits one bucket)
    mpi::Watchdog& watchdog;
    Optimizer& optimizer;
    LossScale& loss_scale;
    Model model;                  ///< This worker's
    DeviceSpan<float> gradients;  ///< Header, step statistics, gradients (buckets.hpp)
    std::vector<Bucket> buckets;
    std::int64_t micro_steps = 1;
    ShardSums* shards = nullptr;  ///< With run.reproducible; the micro-steps are shards then
    double clip_norm = 0.0;       ///< Of the averaged gradient; 0: none
    OverflowGuard* overflow_guard =
        nullptr;                 ///< Decides on the device whether steps are taken; null: the host does
    double average_decay = 0.0;  ///< Of the average of the weights; 0: none is kept
  };
  explicit SyncAllReduce(Parts parts);
  /// Statistics that steps and averagings leave alone. To be called before the first step.
  void fix_statistics(KeptValues fixed) { fixed_statistics_ = std::move(fixed); }
  /// Halves of the model's parameters, which steps write too; null: none. To be called before the first step,
  /// and only where nothing else than steps and what fills live() writes the parameters.
  void write_halves(HalfParameters* halves) { halves_ = halves; }
  std::optional<KeptValues>& fixed_statistics() { return fixed_statistics_; }

  void start() override;
  void resume(const Resumption&) override;
  DeviceSpan<float> loss_sums() override { return parts_.gradients.subspan(0, flotilla::loss_sums); }
  void clear_gradients() override;
  void end_micro_step(std::int64_t micro_step) override;
  void vote_to_stop() override;
  void gradient_ready(std::int64_t begin) override;
  StepOutcome finish_step(const StepInfo& info) override;
  Model consensus() override { return parts_.model; }
  StrategyState state() override;
  std::vector<StateArray> live() override;
  Alike alike() const override { return {.model = parts_.model, .slots = true}; }
  StrategyTimes times() const override { return times_; }
  Model average() override { return average_ ? average_->model() : Model{}; }
  std::int64_t held_bytes() const override { return average_ ? average_->bytes() : 0; }
  StrategyDescription description() const override;
  /// Whether the next steps are taken by all workers together (the default) or by this one alone, with its
  /// own gradients. Equal on every worker.
  void step_together(bool together) { together_ = together; }
  /// Whether its gradients are never added to another worker's.
  bool is_alone() const { return parts_.reduction.first().ranks() == 1; }

 private:
  void begin_guard();
  HalfCopy half_copy();
  DeviceSpan<float> complete(std::size_t bucket);
  void all_reduce(std::size_t bucket, std::int64_t step);
  void all_reduce_exactly(std::int64_t step);

  std::int64_t averaged() const { return together_ ? averaged_ : 1; }
  void reduce(std::int64_t step);
  void update_statistics();
  void update(double learning_rate);
  StepOutcome update_if_finite(const StepInfo& info);
  StepOutcome update_guarded(const StepInfo& info);
  StepOutcome outcome(const StepInfo& info);

  Parts parts_;
  std::int64_t averaged_;  ///< Number of summands in the sum over the workers
  std::optional<KeptValues> fixed_statistics_;
  HalfParameters* halves_ = nullptr;
  float statistics_decay_;  ///< Of the running statistics in a step
  StrategyTimes times_;
  bool together_ = true;
  std::int64_t step_ = 0;    ///< The one whose gradients become ready
  std::size_t started_ = 0;  ///< Buckets of this step whose all-reduce was started
  DelayedMetrics late_;
  std::int64_t not_taken_ =
      0;  ///< Steps in the last report of the guard that the optimizer counted and the device skipped
  std::optional<WeightAverage> average_;  ///< Of the weights, with Parts::average_decay
  Storage statistics_before_;             ///< With an overflow guard: of the step that it may undo
};

}  // namespace flotilla
