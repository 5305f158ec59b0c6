// SPDX-License-Identifier: Apache-2.0
#include "src/train/model_checks.hpp"

#include <cmath>
#include <span>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla {

ModelChecks::ModelChecks(RunParts& run, FailureHandler& failure, Saves& saves, const TrainingState& state,
                         bool ends_job_when_diverged)
    : run_(run),
      failure_(failure),
      saves_(saves),
      state_(state),
      ends_job_when_diverged_(ends_job_when_diverged),
      agreement_(
          run.machine.workers, *run.model.network,
          // Different slots show in the parameters a step later, so they are compared on request only.
          state_arrays(run.model.weights, run.config.run.agreement_every > 0 && run.machine.servers == nullptr
                                              ? run.model.optimizer.get()
                                              : nullptr)) {}

bool ModelChecks::is_due(std::int64_t step, bool reported) const {
  if (run_.sync.strategy->pace().independent) return false;
  const std::int64_t every = run_.config.run.agreement_every;
  return reported || (every > 0 && step % every == 0);
}

bool ModelChecks::is_overdue() const {
  return agreement_due_ && !run_.sync.strategy->replicated().model.parameters.empty();
}

void ModelChecks::check_agreement() {
  if (last_agreed_step_ == state_.step) return;
  last_agreed_step_ = state_.step;
  run_.machine.watchdog.beat("comparing the workers' models", state_.step);
  const Replicated alike = run_.sync.strategy->replicated();
  agreement_due_ = alike.model.parameters.empty();
  const auto different = agreement_.compare(alike, state_.step);
  if (!different) return;
  saves_.finish();
  failure_.end_job_together(cat(different->text(state_.step), "; ", saves_.last_good()), exit_internal_error,
                            run_.machine.places[static_cast<std::size_t>(different->ranks.front())].rank);
}

/// A NaN that max pooling hides from the loss has reached the statistics.
void ModelChecks::check_finite(const StepOutcome& outcome) {
  if (outcome.skipped) return check_overflow_limit(outcome);
  const bool loss_is_finite = std::isfinite(outcome.loss);
  if (loss_is_finite &&
      (outcome.late || run_.machine.device->flat().all_finite(run_.model.weights.statistics)))
    return;
  const std::string loss = outcome.late ? "the loss of the step before is " : "the loss is ";
  const std::string what = loss_is_finite ? "a running statistic is not finite"
                                          : loss + (std::isnan(outcome.loss) ? "NaN" : "infinite");
  // Statistics may be this worker's own although all have synchronised.
  const bool all_see_it =
      outcome.all_workers && (!loss_is_finite || !run_.sync.strategy->replicated().model.statistics.empty());
  if (all_see_it) end_diverged(what);
  end_diverged_alone(what);
}

/// Some arrays that are saved are not on every worker: where servers update, worker 0 alone has the
/// optimizer's slots.
void ModelChecks::check_finite(const StrategyState& state) {
  std::string what;
  for (const StateArray& array : state.shared)
    if (what.empty() && !run_.machine.device->flat().all_finite(array.values))
      what = cat("a value of ", array.group, " is not finite");
  std::int32_t worker = what.empty() ? run_.machine.workers.size() : run_.machine.workers.rank();
  run_.machine.workers.all_reduce(std::span(&worker, 1), mpi::Op::min, state_.step);
  if (worker == run_.machine.workers.size()) return;
  run_.machine.workers.broadcast(what, worker, state_.step);
  end_diverged(what);
}

/// A step that overflowed is skipped, unless a smaller loss scale would not have helped.
void ModelChecks::check_overflow_limit(const StepOutcome& outcome) {
  if (!outcome.unrecoverable) return;
  const LossScale& scale = run_.model.loss_scale;
  const std::string what =
      cat(scale.consecutive_overflows(), " steps in a row overflowed in ", run_.config.device.precision,
          " at the loss scale ", scale.scale(),
          ", which cannot fall any further (device.precision = \"bfloat16\" needs none",
          run_.config.device.loss_scale.kind == LossScaleKind::fixed ? "; try a smaller one" : "", ")");
  if (outcome.skipped_by_all) end_diverged(what);
  end_diverged_alone(what);
}

std::string ModelChecks::divergence(const std::string& what, const std::string& where) const {
  return cat(what, " after step ", state_.step, " (learning rate ", state_.learning_rate, "): ", where,
             "training diverged, nothing more was saved; first try a smaller learning rate, "
             "schedule.learning_rate=",
             run_.config.schedule.learning_rate / 10.0, ", then train.gradient_clip_norm=1; ",
             saves_.last_good());
}

/// Collective. Ends the training, or the job, once what is being written is known to be good.
void ModelChecks::end_diverged(const std::string& what) {
  saves_.finish();
  if (!ends_job_when_diverged_) throw Divergence{divergence(what, where_not_finite())};
  failure_.end_job_together(divergence(what, where_not_finite()), exit_user_error,
                            run_.machine.places.front().rank);
}

void ModelChecks::agree_on_divergence() const {
  if (ends_job_when_diverged_) return;
  for (const std::string& text : run_.machine.workers.all_gather(diverged_, state_.step))
    if (!text.empty()) throw Divergence{text};
}

/// Called if only this worker diverged: the others do not know of it, their samples may be good. Ends the
/// job, or asks all workers to stop.
void ModelChecks::end_diverged_alone(const std::string& what) {
  if (!diverged_.empty()) return;
  saves_.finish();
  const std::string layer = run_.model.network->first_non_finite();
  const std::string where = layer.empty() ? "" : cat("the output of ", layer, " is not finite; ");
  if (!ends_job_when_diverged_) {
    diverged_ = divergence(what, where);
    return;
  }
  failure_.end_job(divergence(what, where), exit_user_error);
}

/// Collective. The first layer whose output is not finite, on the lowest rank that has one.
std::string ModelChecks::where_not_finite() const {
  const std::vector<std::string> layers =
      run_.machine.workers.all_gather(run_.model.network->first_non_finite(), state_.step);
  for (std::size_t rank = 0; rank < layers.size(); ++rank)
    if (!layers[rank].empty())
      return cat("the output of ", layers[rank], " is not finite on rank ", rank, "; ");
  return run_.data.sharding.micro_steps > 1 ? "the outputs of the last micro-step are finite; "
                                            : "the outputs of all layers are finite; ";
}

}  // namespace flotilla
