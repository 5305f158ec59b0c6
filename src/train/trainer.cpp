// SPDX-License-Identifier: Apache-2.0
#include "src/train/trainer.hpp"

#include <algorithm>
#include <utility>

#include "src/train/beginning.hpp"

namespace flotilla {

Trainer::Trainer(Parts parts, const Beginning& beginning)
    : parts_(std::move(parts)),
      run_(parts_.run),
      state_{.step = beginning.step,
             .position = beginning.position,
             .samples = beginning.samples,
             .seconds_before = beginning.seconds},
      loaders_(run_, parts_.loading),
      saves_(run_, parts_.reporter, parts_.writers, beginning.checkpoint),
      step_(run_, parts_.failure, saves_, loaders_.sampler(), state_),
      reports_(run_, parts_.reporter, state_),
      validations_({run_, parts_.reporter, saves_, loaders_, state_, parts_.mlperf}, beginning.numbers),
      checks_(run_, parts_.failure, saves_, state_, parts_.ends_job_when_diverged),
      checkpoints_({run_, saves_, checks_, validations_, loaders_, state_, parts_.build, beginning.changes}),
      stop_(run_.config, run_.machine, parts_.reporter, parts_.limit, state_) {
  state_.position = loaders_.sampler().after(
      beginning.position, 0);  // the next epoch, if the rest of this one is smaller than a batch
}

Ending Trainer::run() {
  const auto loader = make_loader();
  run_.machine.device->queue().synchronize();
  reports_.begin();
  checkpoints_.begin();
  try {
    while (!is_done()) {
      const std::int64_t step_ns_before = state_.times.step_ns;
      const StepOutcome outcome = step_.take(*loader, plan_step());
      look_at(outcome, state_.times.step_ns - step_ns_before);
      if (outcome.stop) {
        stop_.accept();
        agree_on_end();
        if (!stop_.time_is_up()) save_for_stop();
        break;
      }
      if (validations_.is_due(state_.position)) validations_.validate(reports_.last_epoch_s());
      checkpoints_.save_if_due();
    }
    return end();
  } catch (const Divergence& divergence) {  // on all workers, after one and the same step
    run_.machine.watchdog.clear_deadline();
    run_.machine.workers.barrier(state_.step);
    run_.machine.watchdog.beat("ending", state_.step);
    return {.reason = "diverged", .step = state_.step, .divergence = divergence.text};
  }
}

/// Called before a step: decides whether this worker wants to stop after it, and what all workers do together
/// then.
StepPlan Trainer::plan_step() {
  const std::int64_t step = state_.step + 1;
  const Position next = loaders_.sampler().after(state_.position);
  const bool asks_to_stop = stop_.asked_to_stop(stop_.has_limit() ? work_to_come() : WorkToCome());
  const bool synchronises = checks_.is_due(step, reports_.is_due(step, next)) || next.offset == 0 ||
                            checkpoints_.is_planned(step) || has_done(step, next);
  const bool asks_to_save = checkpoints_.plan_question(synchronises);
  return {.asks_to_stop = asks_to_stop, .synchronise = synchronises || asks_to_save};
}

/// Called after a step: checks and reports.
void Trainer::look_at(const StepOutcome& outcome, std::int64_t step_ns) {
  const bool epoch_ended = state_.position.offset == 0;
  stop_.note_step(step_ns);
  reports_.add(outcome, step_ns);
  if (!outcome.note.empty()) parts_.reporter.say(outcome.note, Message::detail);
  checks_.check_finite(outcome);
  if (checks_.diverged_alone()) stop_.stop("diverged");
  if (epoch_ended || is_done() || outcome.stop)
    step_.replaced().end_epoch(state_.epoch_of_last_step(), *run_.data.training, run_.machine.workers,
                               parts_.reporter, parts_.failure);
  const bool reported = reports_.is_due(state_.step, state_.position);
  // If workers differ between averagings, those of a group are compared now, all of them after the next
  // averaging.
  if (checks_.is_due(state_.step, reported) || checks_.is_overdue()) checks_.check_agreement();
  if (reported || outcome.stop) {
    reports_.report(outcome, step_.clicks());
    saves_.report();
  }
  if (parts_.reporter.wants_live()) reports_.show_live(outcome);
  if (epoch_ended && step_.clicks() != nullptr) step_.clicks()->clear();
}

/// Called after the last step of a run that will be resumed.
void Trainer::save_for_stop() {
  checkpoints_.save();
  if (!validations_.is_due(state_.position)) return;
  validations_.validate(reports_.last_epoch_s());  // a resumed run would not
  if (validations_.steers()) checkpoints_.save_again();
}

/// Called after the last step.
Ending Trainer::end() {
  agree_on_end();
  const bool stopped = !is_done() || !stop_.reason().empty();
  if (!stopped) {
    validations_.validate(reports_.last_epoch_s());
    if (parts_.mlperf != nullptr) parts_.mlperf->run_stops(validations_.best().reached_target());
    checkpoints_.save();
  }
  saves_.finish_last(state_.step);
  saves_.end_resident();
  validations_.report_best();
  reports_.report_whole();
  run_.machine.workers.barrier(state_.step);
  run_.machine.watchdog.beat("ending", state_.step);
  const bool planned_end = stop_.time_is_up() || has_done(state_.step, state_.position);
  return {.reason = stopped                                ? stop_.reason()
                    : validations_.best().reached_target() ? "target reached"
                    : planned_end                          ? "done"
                                                           : "stopped early",
          .step = state_.step,
          .stopped = stopped,
          .too_short = stop_.is_too_short(),
          .exposed_comm_s = seconds(state_.times.exposed_comm_ns())};
}

bool Trainer::has_done(std::int64_t step, const Position& position) const {
  return is_at_limit(run_.config.train, step, position);
}

bool Trainer::is_done() const {
  return stop_.time_is_up() || has_done(state_.step, state_.position) || validations_.end_training();
}

/// Collective after the last step.
void Trainer::agree_on_end() {
  stop_.agree();
  checks_.agree_on_divergence();
}

/// Times that were not measured yet are assumed to be long.
WorkToCome Trainer::work_to_come() const {
  const Position next = loaders_.sampler().after(state_.position);
  const Pace pace = run_.sync.strategy->pace();
  WorkToCome work{.step_s = stop_.longest_step_s(),
                  .mean_step_s = state_.times.mean_step_s(),
                  .catch_up_steps = std::min(pace.max_steps_apart, state_.times.steps),
                  .save_s = checkpoints_.expected_s()};
  if (pace.independent) work.steps = 4;  // those that are ahead agree to stop a little later
  work.saves += checkpoints_.expected_after_next_step(next);
  if (run_.data.validation) {
    work.validation_s = validations_.expected_s();
    work.validations = static_cast<std::int64_t>(validations_.is_due(next)) +
                       static_cast<std::int64_t>(validations_.is_due(loaders_.sampler().after(next)));
  }
  return work;
}

}  // namespace flotilla
