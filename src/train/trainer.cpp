// SPDX-License-Identifier: Apache-2.0
#include "src/train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "src/job/stop_request.hpp"
#include "src/observe/stopwatch.hpp"
#include "src/train/nothing_left.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t unrated_steps =
    10;  ///< First steps that samples_per_s leaves out: caches, page faults, JIT
constexpr double agreement_deadline_s = 10.0;
constexpr const char* time_limit = "time limit";
constexpr const char* time_is_up = "time is up";

}  // namespace

Trainer::Trainer(Parts parts, const Beginning& beginning)
    : parts_(std::move(parts)),
      run_(parts_.run),
      config_(run_.config),
      sampler_(static_cast<std::uint64_t>(config_.run.seed), run_.data.sharding),
      schedule_(config_.schedule, run_.data.sharding.global_batch()),
      end_(end_of(config_.train, run_.data.sharding, beginning.step, beginning.position)),
      changes_(beginning.changes),
      step_(beginning.step),
      position_(sampler_.after(beginning.position, 0)),  // behind an epoch that has no such batch left
      samples_(beginning.samples),
      last_saved_step_(beginning.step),
      begin_ns_(trace::now_ns()),
      seconds_before_(beginning.seconds),
      time_is_up_(config_.train.seconds > 0.0 && beginning.seconds >= config_.train.seconds),
      best_(config_, beginning.best),
      saves_(parts_.run, parts_.reporter, parts_.writers, beginning.checkpoint),
      replaced_(config_.data),
      stragglers_(run_.machine.workers),
      agreement_(
          run_.machine.workers, *run_.model.network,
          // Slots that differ show in the parameters a step later: unasked, they are not compared.
          state_arrays(run_.model.weights, config_.run.agreement_every > 0 && run_.machine.servers == nullptr
                                               ? run_.model.optimizer.get()
                                               : nullptr)) {
  for (const StateArray& array : run_.sync.strategy->live())
    saved_floats_ += static_cast<std::int64_t>(array.values.size());
  if (run_.sync.embeddings)
    gradient_staging_.emplace(*run_.machine.device,
                              static_cast<std::size_t>(run_.model.network->input_size()));
  if (!predicts_clicks(config_.model)) return;
  clicks_.emplace(static_cast<std::size_t>(run_.model.network->batch()));
  logits_.resize(static_cast<std::size_t>(2 * run_.model.network->batch()));
}

std::unique_ptr<Loader> Trainer::make_loader() const {
  LoaderOptions options = parts_.loading;
  options.mixup = config_.train.mixup;
  options.cutmix = config_.train.cutmix;
  options.reader = {.number = run_.machine.host.rank(), .count = run_.machine.host.size()};
  return make_training_loader(*run_.data.training, sampler_, run_.machine.workers.rank(), position_,
                              loading_for(*run_.machine.device, options));
}

/// Training's batches stay in memory as well, and its threads may still be recording into their sinks.
LoaderOptions Trainer::loading_beside_training() const {
  LoaderOptions options = parts_.loading;
  options.prefetch = std::min<std::int64_t>(options.prefetch, 2);
  options.sink = {};
  return options;
}

bool Trainer::done_at(std::int64_t step, const Position& position) const {
  return !reached_limit(config_.train, step, position).empty();
}

bool Trainer::reports_at(std::int64_t step, const Position& position) const {
  return step % config_.run.log_every == 0 || done_at(step, position);
}

bool Trainer::saves_at(std::int64_t step) const {
  const std::int64_t every = config_.checkpoint.every;
  return every > 0 && step % every == 0;
}

bool Trainer::checks_agreement_at(std::int64_t step, const Position& position) const {
  if (run_.sync.strategy->pace().independent) return false;
  const std::int64_t every = config_.run.agreement_every;
  return reports_at(step, position) || (every > 0 && step % every == 0);
}

/// Whether the workers do something together then.
bool Trainer::synchronises_at(std::int64_t step, const Position& position) const {
  return checks_agreement_at(step, position) || position.offset == 0 || saves_at(step) ||
         done_at(step, position);
}

bool Trainer::asked_to_stop() {
  if (!stop_reason_.empty()) return true;
  if (const int signal = stop_signal(); signal != 0) {
    stop_reason_ = "stopped";
    parts_.reporter.say(cat("signal ", signal, " received: stopping after this step",
                            signal == SIGINT ? "; once more ends the run at once, without saving" : ""));
    // How long a step takes is not known before the first one.
    if (times_.steps > 0)
      run_.machine.watchdog.set_deadline(std::max(agreement_deadline_s, 3.0 * seconds(longest_step_ns_)));
  } else if (parts_.limit.is_set() && parts_.limit.reached(trace::now_ns(), work_to_come())) {
    // One worker's clock decides, and that of the one which reports the reason.
    stop_reason_ = time_limit;
  } else if (config_.train.seconds > 0.0 && run_.machine.workers.is_root() &&
             trained_s() >= config_.train.seconds) {
    stop_reason_ = time_is_up;
  }
  return !stop_reason_.empty();
}

double Trainer::trained_s() const {
  return seconds_before_ + seconds(times_.step_ns);
}

/// Collective after a step that is the last one: worker 0's clock may have ended the training, and a worker
/// may have diverged alone.
void Trainer::agree_on_end() {
  if (config_.train.seconds > 0.0) {
    std::int32_t up = time_is_up_ || stop_reason_ == time_is_up ? 1 : 0;
    run_.machine.workers.all_reduce(std::span(&up, 1), mpi::Op::max, step_);
    time_is_up_ = up > 0;
    if (time_is_up_) stop_reason_.clear();
  }
  if (parts_.ends_job_when_diverged) return;
  for (const std::string& text : run_.machine.workers.all_gather(diverged_, step_))
    if (!text.empty()) throw Divergence{text};
}

/// 0 before the first step.
double Trainer::mean_step_s() const {
  return seconds(times_.step_ns) / static_cast<double>(std::max<std::int64_t>(1, times_.steps));
}

/// Times that were not measured yet are assumed to be long: a disk of 100 MB/s, a validation like training.
WorkToCome Trainer::work_to_come() const {
  const Position next = sampler_.after(position_);
  const Pace pace = run_.sync.strategy->pace();
  WorkToCome work{.step_s = seconds(longest_step_ns_),
                  .mean_step_s = mean_step_s(),
                  .catch_up_steps = std::min(pace.most_steps_apart, times_.steps),
                  .save_s = seconds(longest_saving_ns_) + saves_.longest_write_s()};
  if (pace.independent) work.steps = 4;  // those that are ahead agree to stop a little later
  if (work.save_s == 0.0) work.save_s = static_cast<double>(saved_floats_) * sizeof(float) / 100e6;
  if (saves_at(step_ + 1) || (save_clock_ && save_clock_->asks_after(step_ + 1))) ++work.saves;
  if (keeps_best() && validates_at(next)) ++work.saves;
  if (run_.data.validation) {
    work.validation_s = longest_validation_ns_ > 0
                            ? seconds(longest_validation_ns_)
                            : mean_step_s() * static_cast<double>(run_.data.validation->size()) /
                                  static_cast<double>(run_.data.sharding.global_batch());
    work.validations = static_cast<std::int64_t>(validates_at(next)) +
                       static_cast<std::int64_t>(validates_at(sampler_.after(next)));
  }
  return work;
}

Ending Trainer::run() {
  try {
    return train();
  } catch (const Divergence& divergence) {  // on all workers, after one and the same step
    run_.machine.watchdog.clear_deadline();
    run_.machine.workers.barrier(step_);
    run_.machine.watchdog.beat("ending", step_);
    return {.reason = "diverged", .step = step_, .divergence = divergence.text};
  }
}

Ending Trainer::train() {
  const auto loader = make_loader();
  run_.machine.device->queue().synchronize();
  advice_.emplace(config_, run_.machine.workers, run_.machine.places, parts_.reporter);
  if (config_.checkpoint.every_s > 0.0)
    save_clock_.emplace(config_.checkpoint.every_s, step_, trace::now_ns());
  epoch_whole_ = position_.offset == 0;
  while (!done()) {
    const std::int64_t step_ns_before = times_.step_ns;
    const StepOutcome outcome = step(*loader);
    longest_step_ns_ = std::max(longest_step_ns_, times_.step_ns - step_ns_before);
    if (times_.steps > unrated_steps) {
      ++rated_steps_;
      rated_ns_ += times_.step_ns - step_ns_before;
    } else {
      advice_->leave_out(input_times());
    }
    if (!outcome.note.empty()) parts_.reporter.say(outcome.note);
    check_finite(outcome);
    losses_.add(outcome);
    if (position_.offset == 0) end_epoch();
    if (position_.offset == 0 || done() || outcome.stop)
      replaced_.end_epoch(epoch_of_last_step(), *run_.data.training, run_.machine.workers, parts_.reporter,
                          parts_.failure);
    // Where workers differ between averagings, those of a group now, all of them after the next averaging.
    if (checks_agreement_at(step_, position_) ||
        (agreement_due_ && !run_.sync.strategy->alike().model.parameters.empty()))
      check_agreement();
    if (reports_at(step_, position_) || outcome.stop) report(outcome);
    if (parts_.reporter.wants_live()) show_live(outcome);
    if (position_.offset == 0 && clicks_) clicks_->clear();
    if (outcome.stop) {
      if (stop_reason_.empty()) stop_reason_ = "stopped";  // another worker was asked
      run_.machine.watchdog.clear_deadline();
      agree_on_end();
      if (time_is_up_) break;
      save();
      if (validates_now()) {  // a resumed run would not
        validate();
        if (keeps_best()) {
          last_saved_step_ = -1;  // what the validation found goes into the checkpoint too
          save();
        }
      }
      break;
    }
    if (validates_now()) validate();
    if (is_time_to_save() || saves_at(step_) || (improved_ && keeps_best())) save();
  }
  agree_on_end();
  const bool stopped = !done() || !stop_reason_.empty();
  if (!stopped) {
    validate();
    if (parts_.mlperf != nullptr) parts_.mlperf->run_stops(best_.reached_target());
    save();
  }
  saves_.finish_last(step_);
  report_best();
  report_waiting();
  advice_->report_whole(input_times());
  run_.machine.workers.barrier(step_);
  run_.machine.watchdog.beat("ending", step_);
  return {.reason = stopped                                    ? stop_reason_
                    : best_.reached_target()                   ? "target reached"
                    : time_is_up_ || done_at(step_, position_) ? "done"
                                                               : "stopped early",
          .step = step_,
          .stopped = stopped,
          .too_short =
              times_.steps <= 1 && stop_reason_ == time_limit && parts_.limit.is_slurms(trace::now_ns())};
}

/// Whether an epoch has ended after which the deck asks for a validation.
bool Trainer::validates_at(const Position& position) const {
  const std::int64_t every = config_.validation.every;
  return position.offset == 0 && every > 0 && position.epoch % every == 0;
}

std::int64_t Trainer::epoch_of_last_step() const {
  return position_.offset == 0 && position_.epoch > 0 ? position_.epoch - 1 : position_.epoch;
}

}  // namespace flotilla
