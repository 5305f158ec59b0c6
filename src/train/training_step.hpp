// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "src/job/failure.hpp"
#include "src/optim/schedule.hpp"
#include "src/train/click_results.hpp"
#include "src/train/monitor/click_metrics.hpp"
#include "src/train/monitor/replaced_samples.hpp"
#include "src/train/run_data.hpp"
#include "src/train/run_parts.hpp"
#include "src/train/saves.hpp"
#include "src/train/training_state.hpp"

namespace flotilla {

/// Decisions about a step made before it begins.
struct StepPlan {
  bool asks_to_stop = false;  ///< This worker was asked to stop after the step
  bool synchronise = false;   ///< All workers do something together after the step; equal on all of them
};

/// One optimizer step of one worker.
class TrainingStep {
 public:
  /// All arguments must outlive this. @param saves Is waited for before the weights change
  TrainingStep(RunParts& run, FailureHandler& failure, Saves& saves, const Sampler& sampler,
               TrainingState& state);

  /// Collective if the strategy is. Takes the step that follows the state, and advances the state.
  StepOutcome take(Loader& loader, const StepPlan& plan);
  ClickLog* clicks() { return clicks_ ? &*clicks_ : nullptr; }  ///< Null: the model predicts no clicks
  ReplacedSamples& replaced() { return replaced_; }

 private:
  void begin(const StepPlan& plan);
  const Batch& load_batch(Loader& loader);
  const Batch& take_batch(Loader& loader);
  const Batch& look_ahead(Loader& loader, std::size_t batches);
  HostBatch input_of(const Batch& batch, Loader& loader);
  void forward(const Batch& batch, const HostBatch& input, std::int64_t micro_step);
  void backward(const Batch& batch, std::int64_t micro_step, std::int64_t computed_before_ns);
  void push_rows(const Batch& batch, Loader& loader);
  void wait_for_save();
  StepInfo info(const Position& next, const StepPlan& plan) const;
  bool outcome_now(const StepInfo& info) const;
  bool prepare_update(const StepInfo& info);
  StepOutcome served_outcome() const;
  void pause_if_emulated(std::int64_t compute_ns);
  void count(const Loader& loader, const Position& next);

  RunParts& run_;
  FailureHandler& failure_;
  Saves& saves_;
  const Sampler& sampler_;
  TrainingState& state_;
  Schedule schedule_;
  RunEnd end_;                           ///< The end until which learning rates decay
  std::deque<const Batch*> ahead_;       ///< Loaded for the next steps
  std::optional<ClickResults> results_;  ///< Only with embeddings
  std::optional<ClickLog> clicks_;
  ReplacedSamples replaced_;
};

}  // namespace flotilla
