// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "mpi/all_reduce/collectives.hpp"
#include "src/strategy/state_array.hpp"

namespace flotilla {

struct StepInfo {
  std::int64_t step = 0;  ///< 0, 1, …
  double learning_rate = 0.0;
  double epochs_after = 0.0;  ///< Progress::epochs after the step
  double mean_step_s = 0.0;   ///< Mean time of this worker's steps before it, seconds
  bool synchronise = false;   ///< All workers synchronise after it and need its outcome over all of them
};

/// Loss, accuracies and state of a step.
struct StepOutcome {
  double loss = 0.0;           ///< Mean over the samples
  double accuracy_top1 = 0.0;  ///< In [0, 1]
  double accuracy_top5 = 0.0;
  bool stop = false;  ///< Some worker was asked to stop; equal on every worker
  double samples = 0.0;
  double staleness = 0.0;       ///< From the servers' answer (header_staleness); 0: no servers, or none
  std::int64_t period = 0;      ///< Period of local SGD from now on; 0: none
  std::string note{};           ///< For the log
  bool late = false;            ///< The values are those of the step before
  bool all_workers = true;      ///< Over all workers' samples, equal on each; false: over this worker's only
  bool skipped = false;         ///< This worker's gradients overflowed: nothing was updated (loss_scale.hpp)
  bool unrecoverable = false;   ///< This worker's gradients overflowed, and no smaller scale would help
  bool skipped_by_all = false;  ///< All workers skipped the step; equal on every worker
};

/// What a worker sends.
enum class Sent {
  gradients,   ///< With the losses of their step
  parameters,  ///< Or their differences, to be averaged
  statistics,
  slots,       ///< Of the optimizer
  sums,        ///< Losses by themselves, and agreements on a stop
  evaluation,  ///< Averages for validations and checkpoints, of whatever
  servers,     ///< Requests and values
  count
};
inline constexpr std::array<const char*, static_cast<std::size_t>(Sent::count)> sent_words = {
    "gradients", "parameters", "statistics", "slots", "sums", "evaluation", "servers"};

/// The traffic of a worker since the start of training.
struct Traffic {
  std::array<std::int64_t, static_cast<std::size_t>(Sent::count)> sent{};  ///< Bytes by what they are
  /// Pushes to servers that do not wait for all workers, and the sum over them of what server 0 said then:
  /// other workers' updates between a worker's pull and its next push, mean over all workers' last pushes
  std::int64_t stale_pushes = 0;
  double staleness = 0.0;
  std::int64_t synchronisations = 0;  ///< Steps that ended with one of all workers

  std::int64_t& bytes(Sent what) { return sent[static_cast<std::size_t>(what)]; }
  /// An all-reduce of that many floats, some of which are statistics.
  void count(const mpi::Collectives& sums, Sent what, std::size_t values, std::size_t statistics = 0) {
    const auto all = static_cast<std::int64_t>(sums.sent_bytes(values));
    const auto rest = statistics == 0 ? all : static_cast<std::int64_t>(sums.sent_bytes(values - statistics));
    bytes(what) += rest;
    bytes(Sent::statistics) += all - rest;
  }
  std::int64_t sent_bytes() const { return std::accumulate(sent.begin(), sent.end(), std::int64_t{0}); }
};

/// The content of a checkpoint apart from counters.
struct StrategyState {
  /// State in the checkpoint itself: the model and the strategy's arrays, equal on all workers, and the
  /// optimizer's slots, where `own` has them those of worker 0. Valid until the next step.
  std::vector<StateArray> shared;
  std::vector<StateArray> own;            ///< This worker's arrays instead of `shared`; empty: equal
  std::map<std::string, double> numbers;  ///< Numbers of the strategy, equal on all workers
  std::int64_t optimizer_steps = 0;       ///< Optimizer::steps()
};

/// The state at which a run resumes.
struct Resumption {
  std::int64_t steps = 0;                   ///< Steps done
  std::int64_t steps_before = 0;            ///< Sharding::steps_before: those steps in batches of now
  double epochs = 0.0;                      ///< Progress::epochs
  std::map<std::string, double> numbers{};  ///< StrategyState::numbers; empty: saved by another strategy
  bool same_periods = false;                ///< The deck sets the periods that the checkpoint's deck sets
  /// True: live() already holds this worker's own values as well as the shared ones. False: start() was
  /// called before.
  bool own_state = false;
};

/// The state that workers have in common between two steps.
struct Replicated {
  Model model{};       ///< The part of the model that is equal on all workers; empty spans: none
  bool slots = false;  ///< The optimizer's slots are equal on all workers
  /// The group of each worker: workers of one group hold equal models and slots. Empty: there are no groups
  std::span<const int> groups{};
};

/// The distance that workers may have from each other.
struct Pace {
  bool independent = false;  ///< Workers step independently until a step with StepInfo::synchronise
  /// Workers come together in the next step even without StepInfo::synchronise; equal on every worker. In
  /// other steps a collective may hang: a worker that has heard of a request to stop waits for all to agree
  /// on it.
  bool meets = true;
  /// Whether StepInfo::synchronise in the next step would not change training; equal on every worker.
  bool may_synchronise = true;
  std::int64_t max_steps_apart = 0;  ///< Steps that a worker may be ahead of another; 0: none, or unbounded
};

/// For the reports at the start of a run.
struct StrategyDescription {
  std::string transport;           ///< Transport between workers: "hierarchical", "parameter-server"
  std::vector<std::string> lines;  ///< "all-reduce   shared-memory, 4 buckets, on a thread of its own"
  std::int64_t held_bytes = 0;     ///< Memory of its arrays, without this worker's model
};

/// The way in which workers agree on one model. In a step, gradients are summed (GradientSums) and unless
/// servers do it, this worker updates its model by the sums (ModelUpdate), whatever the strategy: exchange()
/// is what the strategies do differently. The trainer calls a strategy at these points and nowhere else.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// To be called before the backward pass of each step, when header and statistics of the gradient array are
  /// zero.
  /// @param asks_to_stop whether this worker was asked to stop after this step
  virtual void begin_step(bool asks_to_stop) = 0;
  /// Collective with the workers that synchronise in this step. After the update: averages weights where the
  /// strategy does so now, or with servers pushes and pulls. @param own outcome of the sums in this worker's
  /// gradient array
  virtual StepOutcome exchange(const StepInfo& info, const StepOutcome& own) = 0;
  /// Collective. Broadcasts worker 0's values (never an average). Not called where each worker resumes with
  /// its own state.
  virtual void start() = 0;
  /// Collective. A run resumes: the values are in the arrays of live().
  virtual void resume(const Resumption& resumed) = 0;
  /// Collective. The model to evaluate; valid until the next step. Does not change training.
  virtual Model consensus() = 0;
  /// Collective. The state to save. Does not change training.
  virtual StrategyState state() = 0;
  /// The arrays for the values of a checkpoint, before start(): the groups of state().shared.
  virtual std::vector<StateArray> live() = 0;
  /// The arrays that are equal on all workers, and inside their groups; after resume(), those that the next
  /// step needs to be equal.
  virtual Replicated replicated() const = 0;
  virtual Pace pace() const { return {}; }
  virtual StrategyDescription description() const = 0;
};

}  // namespace flotilla
