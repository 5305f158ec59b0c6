// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/strategy/state_array.hpp"

namespace flotilla {

struct StepInfo {
  std::int64_t step = 0;  ///< 0, 1, …
  double learning_rate = 0.0;
  double epochs_after = 0.0;  ///< Progress::epochs when it is done
  double mean_step_s = 0.0;   ///< Of this worker's steps before it
  bool meet = false;  ///< The workers do something together after it, and want its outcome over all of them
  /// The outcome is wanted now; else that of the step before will do, so that nobody waits for the device.
  /// The same on every worker.
  bool outcome_now = true;
};

/// What a step's samples came to.
struct StepOutcome {
  double loss = 0.0;           ///< Mean over the samples
  double accuracy_top1 = 0.0;  ///< In [0, 1]
  double accuracy_top5 = 0.0;
  bool stop = false;  ///< Some worker was asked to stop; equal on every worker
  double samples = 0.0;
  std::int64_t period = 0;      ///< Of local SGD, from now on; 0: none
  std::string note{};           ///< For the log
  bool late = false;            ///< Of the step before
  bool all_workers = true;      ///< Over the samples of all workers, the same on each; else of this one alone
  bool skipped = false;         ///< This worker's gradients overflowed: nothing was updated (loss_scale.hpp)
  bool unrecoverable = false;   ///< … and no smaller scale would help
  bool skipped_by_all = false;  ///< The same on all workers
};

/// Time and traffic since the start of training.
struct StrategyTimes {
  std::int64_t exposed_comm_ns = 0;  ///< The training thread waited for communication
  std::int64_t optimizer_ns = 0;
  std::int64_t sent_bytes = 0;
  std::int64_t meetings = 0;  ///< Steps whose end no worker passed before all had come
};

/// What a checkpoint holds beside counters.
struct StrategyState {
  /// In the checkpoint itself, alike on all workers: the one model, its optimizer's slots, and what the
  /// strategy has of its own. Valid until the next step.
  std::vector<StateArray> shared;
  std::vector<StateArray> own;            ///< What this worker holds instead of it; empty: the same
  std::map<std::string, double> numbers;  ///< The strategy's own, alike on all workers
  std::int64_t optimizer_steps = 0;       ///< Optimizer::steps()
};

/// Where a run goes on.
struct Resumption {
  std::int64_t steps = 0;                   ///< Done
  double epochs = 0.0;                      ///< Progress::epochs
  std::map<std::string, double> numbers{};  ///< StrategyState::numbers; empty: of another strategy
  /// This worker's own values are in live(), beside what all share; else they are those of start(), which was
  /// called before.
  bool own_state = false;
};

/// How the workers agree on one model. The trainer calls it at these points and nowhere else.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Collective. Every worker leaves with worker 0's values (a broadcast, never an average). Not called where
  /// each worker goes on with its own state.
  virtual void start() = 0;
  /// Collective. A run goes on: the values are in place.
  virtual void resume(const Resumption& resumed) = 0;
  /// Where this worker's loss sums of the step belong: loss_sums floats, zeroed by the caller before the
  /// forward pass.
  virtual DeviceSpan<float> loss_sums() = 0;
  /// Before the first of several micro-steps, whose gradients and statistics add up.
  virtual void clear_gradients() = 0;
  /// After backward of each micro-step (0, 1, …) but the last.
  virtual void end_micro_step(std::int64_t) {}
  /// Counts as a request to stop after this step. Before backward.
  virtual void vote_to_stop() = 0;
  /// During backward: the gradients from `begin` to the end of the arena are final.
  virtual void gradient_ready(std::int64_t begin) = 0;
  /// Collective. After backward: leaves the values for the next step in this worker's arena.
  virtual StepOutcome finish_step(const StepInfo& info) = 0;
  /// Collective. The one model to evaluate; valid until the next step. Training does not notice.
  virtual Model consensus() = 0;
  /// Collective. What to save, without touching training.
  virtual StrategyState state() = 0;
  /// Where the values of a checkpoint go before start(): the groups of state().shared.
  virtual std::vector<StateArray> live() = 0;
  /// What every worker holds alike between this step and the next; empty spans: nothing.
  virtual Model alike() const = 0;
  /// Whether workers go on without each other until a step at which StepInfo::meet is set.
  virtual bool independent() const { return false; }
  /// Whether StepInfo::meet in the step to come would leave training as it is without; the same on every
  /// worker.
  virtual bool may_meet_after_step() const { return true; }
  /// Steps that a worker may have done and another not, at most; 0: none, or there is no bound.
  virtual std::int64_t most_steps_apart() const { return 0; }
  virtual StrategyTimes times() const = 0;
  virtual std::int64_t held_bytes() const = 0;  ///< Arrays of its own, beside this worker's model
};

}  // namespace flotilla
