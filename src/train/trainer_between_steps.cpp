// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/observe/console.hpp"
#include "src/observe/stopwatch.hpp"
#include "src/train/evaluation.hpp"
#include "src/train/re_estimate.hpp"
#include "src/train/trainer.hpp"

// What a trainer does between steps: reports, validations, checkpoints.

namespace flotilla {

void Trainer::end_epoch() {
  last_epoch_s_ = epoch_whole_ ? std::optional(seconds(times_.step_ns - epoch_begin_ns_)) : std::nullopt;
  epoch_begin_ns_ = times_.step_ns;
  epoch_whole_ = true;
}

void Trainer::report(const StepOutcome& outcome) {
  run_.machine.watchdog.beat("reporting", step_);
  const StrategyTimes strategy = run_.sync.times();
  const StragglerReport stragglers =
      run_.sync.strategy->pace().independent ? StragglerReport() : stragglers_.gather();
  const std::int64_t steps = times_.steps - mark_.times.steps;
  const std::int64_t step_ns = times_.step_ns - mark_.times.step_ns;
  std::int64_t rated_steps = rated_steps_ - mark_.rated_steps;
  std::int64_t rated_ns = rated_ns_ - mark_.rated_ns;
  if (rated_steps == 0) {  // the first report of a run that reports every few steps
    rated_steps = steps;
    rated_ns = step_ns;
  }
  const auto per_step = [&](std::int64_t ns) { return seconds(ns) / static_cast<double>(steps); };
  StepReport report{.step = step_,
                    .epoch = epoch_of_last_step(),
                    .batch = run_.data.sharding.batch_before(position_),
                    .loss = outcome.loss,
                    .learning_rate = learning_rate_,
                    .samples_per_s = static_cast<double>(rated_steps * run_.data.sharding.global_batch()) /
                                     std::max(1e-9, seconds(rated_ns)),
                    .step_s = per_step(step_ns),
                    .exposed_comm_s = per_step(strategy.exposed_comm_ns - mark_.strategy.exposed_comm_ns),
                    .input_wait_s = per_step(times_.input_ns - mark_.times.input_ns),
                    .forward_s = per_step(times_.forward_ns - mark_.times.forward_ns),
                    .backward_s = per_step(times_.backward_ns - mark_.times.backward_ns),
                    .optimizer_s = per_step(strategy.optimizer_ns - mark_.strategy.optimizer_ns),
                    .sent_bytes = (strategy.sent_bytes - mark_.strategy.sent_bytes) / steps,
                    .memory_bytes = resident_memory_bytes(),
                    .loss_mean = losses_.take(),
                    .period = outcome.period > 0 ? std::optional(outcome.period) : std::nullopt,
                    .classes = config_.model.classes};
  if (config_.model.has_classes()) {
    report.accuracy_top1 = outcome.accuracy_top1;
    report.accuracy_top5 = outcome.accuracy_top5;
  }
  const mpi::Place& slowest = run_.machine.places[static_cast<std::size_t>(stragglers.slowest)];
  if (stragglers.synchronisations > 0) {
    report.wait_s = stragglers.wait_s / static_cast<double>(steps);
    report.compute_s = stragglers.compute_s / static_cast<double>(steps);
    report.slowest_rank = slowest.rank;
    report.slowest_host = slowest.host;
    report.slowest_phase = stragglers.phase;
    report.slowest_times = stragglers.times_last;
    report.slowest_cost_s = stragglers.cost_s;
  }
  if (const LossScale& scale = run_.model.loss_scale; scale.enabled()) {
    report.loss_scale = double{scale.scale()};
    report.skipped_steps = scale.skipped();
  }
  if (const std::int64_t pushes = strategy.stale_pushes - mark_.strategy.stale_pushes; pushes > 0)
    report.staleness = (strategy.staleness - mark_.strategy.staleness) / static_cast<double>(pushes);
  if (clicks_) {
    const ClickLog::Areas areas = clicks_->areas(outcome.all_workers ? &run_.machine.workers : nullptr);
    report.auc = areas.auc;
    report.batch_auc = areas.batch_auc;
  }
  parts_.reporter.step(report);
  if (stragglers.stands_out())
    parts_.reporter.say(cat("straggler    ", stragglers.text(slowest.rank, slowest.host)));
  advice_->report(input_times());
  mark_ = {.times = times_, .strategy = strategy, .rated_steps = rated_steps_, .rated_ns = rated_ns_};
  saves_.report();
}

void Trainer::show_live(const StepOutcome& outcome) {
  recent_.update({.steps = times_.steps,
                  .step_ns = times_.step_ns,
                  .wait_ns = times_.input_ns + run_.sync.times().exposed_comm_ns},
                 trace::now_ns());
  const double step_s = recent_.step_s();
  parts_.reporter.live(
      {.step = step_,
       .epoch = epoch_of_last_step(),
       .batch = run_.data.sharding.batch_before(position_),
       .loss = outcome.loss,
       .samples_per_s = static_cast<double>(run_.data.sharding.global_batch()) / std::max(1e-9, step_s),
       .step_s = step_s,
       .waiting = recent_.waiting()});
}

/// Collective. Where statistics are neither averaged nor each worker's: those of training batches, into a
/// model that is not this worker's own.
void Trainer::estimate_statistics(const Model& model) {
  const bool own = model.parameters.address() == run_.model.weights.parameters.address();
  const LocalSgdConfig* local = config_.local_sgd();
  if (local == nullptr || local->statistics != LocalStatistics::re_estimate || own) return;
  const auto loader =
      make_training_loader(*run_.data.training, sampler_, run_.machine.workers.rank(), position_,
                           loading_for(*run_.machine.device, loading_beside_training()));
  re_estimate_statistics(run_, model, *loader, local->estimate_batches);
}

/// Over the whole run.
void Trainer::report_waiting() {
  const StragglerReport stragglers = stragglers_.whole();
  if (stragglers.synchronisations == 0) return;
  const mpi::Place& slowest = run_.machine.places[static_cast<std::size_t>(stragglers.slowest)];
  if (const std::string emulated = run_.machine.straggler->description(); !emulated.empty())
    parts_.reporter.say(cat("straggler    emulated: ", emulated));
  if (stragglers.stands_out())
    parts_.reporter.say(cat("straggler    in the whole run ", stragglers.text(slowest.rank, slowest.host)));
  parts_.reporter.log(
      fmt::format("this rank came last {} of {} times, which cost all {:.2f} s; it waited {:.2f} s",
                  stragglers_.times_last(), stragglers.synchronisations, stragglers_.cost_s(),
                  seconds(run_.sync.times().exposed_comm_ns)));
}

InputTimes Trainer::input_times() const {
  return {.step_ns = times_.step_ns,
          .wait_ns = times_.input_ns,
          .read_ns = times_.read_ns,
          .comm_ns = run_.sync.times().exposed_comm_ns};
}

void Trainer::validate() {
  if (!run_.data.validation || last_validated_step_ == step_) return;
  const std::int64_t begin_ns = trace::now_ns();
  const Stopwatch watch(times_.validation_ns);
  if (parts_.mlperf != nullptr) parts_.mlperf->validation_starts(epoch_of_last_step() + 1, step_);
  saves_.wait_until_read(step_);
  run_.machine.watchdog.beat("validating", step_);
  const Model model = run_.sync.strategy->consensus();
  estimate_statistics(model);
  const NetworkInputs inputs = evaluation_inputs(run_.sync.embeddings.get(), step_);
  const auto evaluation_of = [&](const Model& evaluated) {
    run_.model.evaluate_with(evaluated);
    return evaluate(
        run_.model.evaluator(), *run_.data.validation, run_.machine.workers, loading_beside_training(),
        run_.model.validation_sums.span(), run_.model.shards(), config_,
        [this](const Batch&) { run_.machine.watchdog.beat("validating", step_); }, inputs);
  };
  const Evaluation result = evaluation_of(model);
  std::optional<Evaluation> average;
  if (const Model averaged = run_.sync.strategy->average(); !averaged.parameters.empty())
    average = evaluation_of(averaged);
  run_.model.evaluate_with(run_.model.weights);
  ValidationReport report{.step = step_,
                          .epoch = epoch_of_last_step(),
                          .figures = result.figures,
                          .samples = result.samples,
                          .outputs = result.outputs,
                          .epoch_s = position_.offset == 0 ? last_epoch_s_ : std::nullopt,
                          .classes = config_.model.classes};
  if (average) report.averages = reported_averages(average->figures);
  // A run that is cut short validates where the whole one does not: that must not change how it goes on.
  if (validates_now() || config_.validation.every == 0) {
    // That all workers find the same must not hang on the last bit of what each computed: worker 0's counts.
    std::array<double, 1> figure{best_.figure(report)};
    run_.machine.workers.broadcast(std::span<double>(figure));
    improved_ = best_.add(figure[0], report) || improved_;
    best_.put_into(report);
  }
  parts_.reporter.validation(report);
  if (parts_.mlperf != nullptr) parts_.mlperf->validation_stops(best_.figure(report));
  last_validated_step_ = step_;
  longest_validation_ns_ = std::max(longest_validation_ns_, trace::now_ns() - begin_ns);
}

/// Where the best checkpoint is, and why training ended early.
void Trainer::report_best() {
  if (!keeps_best() || !best_.is_known() || parts_.writers.shared == nullptr) return;
  parts_.reporter.say(cat("best         ", best_.text(), ": ", config_.run.output, "/checkpoints/best.h5",
                          best_.reached_target()    ? "; train.target is reached"
                          : best_.out_of_patience() ? cat("; no better one in ", config_.train.patience,
                                                          " validations (train.patience)")
                                                    : ""));
}

/// Collective after a step at which the workers have synchronised to ask the clock.
bool Trainer::is_time_to_save() {
  if (!asks_clock_) return false;
  run_.machine.watchdog.beat("asking whether to save", step_);
  return save_clock_->ask(run_.machine.workers, step_, trace::now_ns());
}

void Trainer::save() {
  if (last_saved_step_ == step_ && step_ > 0) return;
  const trace::Span span("checkpoint");
  const std::int64_t begin_ns = trace::now_ns();
  const Stopwatch whole(times_.saving_ns);
  saves_.wait_until_read(step_);
  run_.machine.watchdog.beat("saving", step_);
  check_agreement();
  CheckpointState counters{
      .step = step_,
      .position = position_,
      .samples = samples_,
      .seed = config_.run.seed,
      .optimizer_step = 0,
      .deck = config_.resolved_text,
      .versions = {{"flotilla", parts_.build}, {"device", run_.machine.device->info().description}},
      .choices = run_.sync.choices,
      .training_samples = run_.data.training->size()};
  for (const auto* texts : {&run_.data.identities, &changes_})
    counters.choices.insert(texts->begin(), texts->end());
  if (const std::string names = text_of_class_names(run_.data.class_names); !names.empty())
    counters.choices["data.class_names"] = names;
  const std::string failure = save_rows(counters);
  const StrategyState state = run_.sync.strategy->state();
  estimate_statistics({state.shared[0].values, state.shared[1].values});
  check_finite(state);
  last_saved_step_ = step_;
  counters.optimizer_step = state.optimizer_steps;
  counters.numbers = best_.numbers();
  if (config_.train.seconds > 0.0) counters.numbers[trained_seconds] = trained_s();
  improved_ = false;
  // All workers save or none does: they exchange what became of their parts.
  if (failure.empty()) {
    saves_.start(counters, state, keeps_best() ? best_.step() : -1);
  } else {
    saves_.give_up(step_, failure);
  }
  if (save_clock_) save_clock_->saved(begin_ns);
  times_.stall_ns = saves_.stall_ns();
  longest_saving_ns_ = std::max(longest_saving_ns_, trace::now_ns() - begin_ns);
}

/// Collective. The servers' parts of a checkpoint, before any worker goes on: their rows and the optimizer's
/// state are of one moment. @returns why the checkpoint cannot be written, equal on all workers; empty: it
/// can
std::string Trainer::save_rows(CheckpointState& state) {
  std::string failure;
  if (!run_.sync.embeddings || parts_.writers.shared == nullptr) return failure;
  run_.machine.watchdog.beat("waiting for the servers to save", step_);
  if (run_.machine.workers.is_root()) {
    try {
      state.server_parts = save_rows_of_servers(state);
    } catch (const UserError& error) {
      failure = error.what();
    }
  }
  run_.machine.workers.broadcast(failure);
  return failure;
}

/// On worker 0. @throws UserError if one of the servers failed; none has left a part then.
std::vector<CheckpointPart> Trainer::save_rows_of_servers(const CheckpointState& state) {
  const CheckpointFolder folder(config_.run.output + "/checkpoints");
  try {
    folder.make_parts(step_);
    std::vector<std::string> paths;
    for (int i = 0; i < run_.machine.servers->roles().table().count(mpi::Role::server); ++i)
      paths.push_back(folder.server_part_path(step_, i));
    return run_.machine.servers->save_rows(paths, state);
  } catch (const UserError&) {
    folder.remove_orphaned_parts(step_);
    throw;
  }
}

}  // namespace flotilla
