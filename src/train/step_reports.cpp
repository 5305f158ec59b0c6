// SPDX-License-Identifier: Apache-2.0
#include "src/train/step_reports.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "src/observe/console.hpp"
#include "src/train/beginning.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t unrated_steps =
    10;  ///< First steps that samples_per_s leaves out: caches, page faults, JIT

}  // namespace

StepReports::StepReports(RunParts& run, Reporter& reporter, const TrainingState& state)
    : run_(run),
      reporter_(reporter),
      state_(state),
      begin_ns_(trace::now_ns()),
      stragglers_(run.machine.workers) {}

bool StepReports::is_due(std::int64_t step, const Position& position) const {
  return step % run_.config.run.log_every == 0 || is_at_limit(run_.config.train, step, position);
}

void StepReports::begin() {
  advice_.emplace(run_.config, run_.machine.workers, run_.machine.places, reporter_);
  epoch_whole_ = state_.position.offset == 0;
}

void StepReports::add(const StepOutcome& outcome, std::int64_t step_ns) {
  stragglers_.after_step(run_.sync.traffic.synchronisations, totals());
  if (state_.times.steps > unrated_steps) {
    ++rated_steps_;
    rated_ns_ += step_ns;
  } else {
    advice_->leave_out(input_times());
  }
  losses_.add(outcome);
  if (state_.position.offset == 0) end_epoch();
}

void StepReports::end_epoch() {
  const std::int64_t now_ns = state_.times.step_ns;
  last_epoch_s_ = epoch_whole_ ? std::optional(seconds(now_ns - epoch_begin_ns_)) : std::nullopt;
  epoch_begin_ns_ = now_ns;
  epoch_whole_ = true;
}

const mpi::Place& StepReports::place_of(int worker) const {
  return run_.machine.places[static_cast<std::size_t>(worker)];
}

void StepReports::report(const StepOutcome& outcome, ClickLog* clicks) {
  run_.machine.watchdog.beat("reporting", state_.step);
  const StragglerReport stragglers =
      run_.sync.strategy->pace().independent ? StragglerReport() : stragglers_.gather();
  StepReport report{.step = state_.step,
                    .epoch = state_.epoch_of_last_step(),
                    .batch = run_.data.sharding.batch_before(state_.position),
                    .loss = outcome.loss,
                    .learning_rate = state_.learning_rate,
                    .memory_bytes = resident_memory_bytes(),
                    .loss_mean = losses_.take(),
                    .period = outcome.period > 0 ? std::optional(outcome.period) : std::nullopt,
                    .classes = run_.config.model.classes};
  put_rates(report);
  if (run_.config.model.has_classes()) {
    report.accuracy_top1 = outcome.accuracy_top1;
    report.accuracy_top5 = outcome.accuracy_top5;
  }
  if (stragglers.synchronisations > 0)
    put_stragglers(stragglers, state_.times.steps - mark_.times.steps, report);
  if (const LossScale& scale = run_.model.loss_scale; scale.enabled()) {
    report.loss_scale = double{scale.scale()};
    report.skipped_steps = scale.skipped();
  }
  const Traffic& traffic = run_.sync.traffic;
  if (const std::int64_t pushes = traffic.stale_pushes - mark_.traffic.stale_pushes; pushes > 0)
    report.staleness = (traffic.staleness - mark_.traffic.staleness) / static_cast<double>(pushes);
  if (clicks != nullptr) {
    const ClickLog::Areas areas = clicks->areas(outcome.all_workers ? &run_.machine.workers : nullptr);
    report.auc = areas.auc;
    report.batch_auc = areas.batch_auc;
  }
  reporter_.step(report);
  if (stragglers.stands_out()) {
    const mpi::Place& slowest = place_of(stragglers.slowest);
    reporter_.say(cat("straggler    ", stragglers.text(slowest.rank, slowest.host)), Message::detail);
  }
  advice_->report(input_times());
  mark_ = {.times = state_.times,
           .traffic = traffic,
           .sent_bytes = run_.sync.sent_bytes(),
           .rated_steps = rated_steps_,
           .rated_ns = rated_ns_};
}

/// Means over the steps since the last report.
void StepReports::put_rates(StepReport& report) const {
  const PhaseTimes& now = state_.times;
  const PhaseTimes& before = mark_.times;
  const std::int64_t steps = now.steps - before.steps;
  const std::int64_t step_ns = now.step_ns - before.step_ns;
  std::int64_t rated_steps = rated_steps_ - mark_.rated_steps;
  std::int64_t rated_ns = rated_ns_ - mark_.rated_ns;
  if (rated_steps == 0) {  // the first report of a run that reports every few steps
    rated_steps = steps;
    rated_ns = step_ns;
  }
  const auto per_step = [&](std::int64_t ns) { return seconds(ns) / static_cast<double>(steps); };
  report.samples_per_s = static_cast<double>(rated_steps * run_.data.sharding.global_batch()) /
                         std::max(1e-9, seconds(rated_ns));
  report.step_s = per_step(step_ns);
  report.exposed_comm_s = per_step(now.exposed_comm_ns() - before.exposed_comm_ns());
  report.input_wait_s = per_step(now.input_ns - before.input_ns);
  report.forward_s = per_step(now.forward_ns - before.forward_ns);
  report.backward_s = per_step(now.backward_ns - before.backward_ns);
  report.optimizer_s = per_step(now.optimizer_ns - before.optimizer_ns);
  report.sent_bytes = (run_.sync.sent_bytes() - mark_.sent_bytes) / steps;
}

void StepReports::put_stragglers(const StragglerReport& stragglers, std::int64_t steps,
                                 StepReport& report) const {
  report.wait_s = stragglers.wait_s / static_cast<double>(steps);
  report.compute_s = stragglers.compute_s / static_cast<double>(steps);
  report.slowest_rank = place_of(stragglers.slowest).rank;
  report.slowest_host = place_of(stragglers.slowest).host;
  report.slowest_phase = stragglers.phase;
  report.slowest_times = stragglers.times_last;
  report.slowest_cost_s = stragglers.cost_s;
}

void StepReports::show_live(const StepOutcome& outcome) {
  recent_.update({.steps = state_.times.steps,
                  .step_ns = state_.times.step_ns,
                  .wait_ns = state_.times.input_ns + state_.times.exposed_comm_ns()},
                 trace::now_ns());
  const double step_s = recent_.step_s();
  reporter_.live(
      {.step = state_.step,
       .epoch = state_.epoch_of_last_step(),
       .batch = run_.data.sharding.batch_before(state_.position),
       .loss = outcome.loss,
       .samples_per_s = static_cast<double>(run_.data.sharding.global_batch()) / std::max(1e-9, step_s),
       .step_s = step_s,
       .waiting = recent_.waiting()});
}

void StepReports::report_whole() {
  const StragglerReport stragglers = stragglers_.whole();
  if (stragglers.synchronisations > 0) {
    const mpi::Place& slowest = place_of(stragglers.slowest);
    if (const std::string emulated = run_.machine.straggler->description(); !emulated.empty())
      reporter_.say(cat("straggler    emulated: ", emulated), Message::detail);
    if (stragglers.stands_out())
      reporter_.advise(stragglers.cost_s,
                       cat("straggler    in the whole run ", stragglers.text(slowest.rank, slowest.host),
                           ": ", stragglers.remedy()));
    reporter_.log(
        fmt::format("this rank came last {} of {} times, which cost all {:.2f} s; it waited {:.2f} s",
                    stragglers_.times_last(), stragglers.synchronisations, stragglers_.cost_s(),
                    seconds(state_.times.exposed_comm_ns())));
  }
  advice_->report_whole(input_times());
}

StepTimes StepReports::totals() const {
  const PhaseTimes& times = state_.times;
  StepTimes total{.wait_ns = times.exposed_comm_ns()};
  total[Phase::input] = times.input_ns;
  total[Phase::compute] = times.forward_ns + times.backward_ns;
  total[Phase::optimizer] = times.optimizer_ns;
  total[Phase::saving] = times.saving_ns;
  total[Phase::validation] = times.validation_ns;
  total[Phase::pause] = times.pause_ns;
  std::int64_t counted_ns = total.wait_ns;
  for (const std::int64_t ns : total.phase_ns) counted_ns += ns;
  total[Phase::rest] = trace::now_ns() - begin_ns_ - counted_ns;
  return total;
}

InputTimes StepReports::input_times() const {
  return {.step_ns = state_.times.step_ns,
          .wait_ns = state_.times.input_ns,
          .read_ns = state_.times.read_ns,
          .comm_ns = state_.times.exposed_comm_ns()};
}

}  // namespace flotilla
