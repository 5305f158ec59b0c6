// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/error.hpp"
#include "src/train/trainer.hpp"

// What ends a run: workers whose models differ, values that are not finite, overflow that no scale avoids.

namespace flotilla {

/// Collective. Ends the job where the workers hold different models.
void Trainer::check_agreement() {
  if (last_agreed_step_ == step_) return;
  last_agreed_step_ = step_;
  run_.machine.watchdog.beat("comparing the workers' models", step_);
  const Alike alike = run_.sync.strategy->alike();
  agreement_due_ = alike.model.parameters.empty();
  const auto different = agreement_.compare(alike, step_);
  if (!different) return;
  saves_.finish();
  parts_.failure.end_job_together(
      cat(different->text(step_), "; ", saves_.last_good()), exit_internal_error,
      run_.machine.places[static_cast<std::size_t>(different->ranks.front())].rank);
}

/// A NaN that max pooling hides from the loss has reached the statistics.
void Trainer::check_finite(const StepOutcome& outcome) {
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
      outcome.all_workers && (!loss_is_finite || !run_.sync.strategy->alike().model.statistics.empty());
  if (all_see_it) end_diverged(what);
  end_diverged_alone(what);
}

/// Collective. Not every worker holds all arrays that are saved: where servers update, worker 0 alone has the
/// optimizer's slots.
void Trainer::check_finite(const StrategyState& state) {
  std::string what;
  for (const StateArray& array : state.shared)
    if (what.empty() && !run_.machine.device->flat().all_finite(array.values))
      what = cat("a value of ", array.group, " is not finite");
  std::int32_t worker = what.empty() ? run_.machine.workers.size() : run_.machine.workers.rank();
  run_.machine.workers.all_reduce(std::span(&worker, 1), mpi::Op::min, step_);
  if (worker == run_.machine.workers.size()) return;
  run_.machine.workers.broadcast(what, worker, step_);
  end_diverged(what);
}

/// A step that overflowed is skipped, unless a smaller loss scale would not have helped.
void Trainer::check_overflow_limit(const StepOutcome& outcome) {
  if (!outcome.unrecoverable) return;
  const LossScale& scale = run_.model.loss_scale;
  const std::string what =
      cat(scale.consecutive_overflows(), " steps in a row overflowed in ", config_.device.precision,
          " at the loss scale ", scale.scale(),
          ", which cannot fall any further (device.precision = \"bfloat16\" needs none",
          config_.device.loss_scale.kind == LossScaleKind::fixed ? "; try a smaller one" : "", ")");
  if (outcome.skipped_by_all) end_diverged(what);
  end_diverged_alone(what);
}

std::string Trainer::divergence(const std::string& what, const std::string& where) const {
  return cat(what, " after step ", step_, " (learning rate ", learning_rate_, "): ", where,
             "training diverged, nothing more was saved; try a smaller schedule.learning_rate or "
             "train.gradient_clip_norm; ",
             saves_.last_good());
}

/// Collective. Ends the training, or the job, once what is being written is known to be good.
void Trainer::end_diverged(const std::string& what) {
  saves_.finish();
  if (!parts_.ends_job_when_diverged) throw Divergence{divergence(what, where_not_finite())};
  parts_.failure.end_job_together(divergence(what, where_not_finite()), exit_user_error,
                                  run_.machine.places.front().rank);
}

/// Where only this worker diverged: the others do not know of it, their samples may be good. Ends the job, or
/// asks all workers to stop.
void Trainer::end_diverged_alone(const std::string& what) {
  if (!diverged_.empty()) return;
  saves_.finish();
  const std::string layer = run_.model.network->first_non_finite();
  const std::string where = layer.empty() ? "" : cat("the output of ", layer, " is not finite; ");
  if (!parts_.ends_job_when_diverged) {
    diverged_ = divergence(what, where);
    stop_reason_ = "diverged";
    return;
  }
  parts_.failure.end_job(divergence(what, where), exit_user_error);
}

/// Collective. The first layer whose output is not finite, on the lowest rank that has one.
std::string Trainer::where_not_finite() const {
  const std::vector<std::string> layers =
      run_.machine.workers.all_gather(run_.model.network->first_non_finite(), step_);
  for (std::size_t rank = 0; rank < layers.size(); ++rank)
    if (!layers[rank].empty())
      return cat("the output of ", layers[rank], " is not finite on rank ", rank, "; ");
  return run_.data.sharding.micro_steps > 1 ? "the outputs of the last micro-step are finite; "
                                            : "the outputs of all layers are finite; ";
}

}  // namespace flotilla
