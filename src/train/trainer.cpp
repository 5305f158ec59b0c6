// SPDX-License-Identifier: Apache-2.0
#include "src/train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/openmp_waiting.hpp"
#include "kernels/trace.hpp"
#include "src/job/stop_request.hpp"
#include "src/observe/stopwatch.hpp"
#include "src/train/loading.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t unrated_steps =
    10;  ///< First steps that samples_per_s leaves out: caches, page faults, JIT
constexpr double agreement_deadline_s = 10.0;
constexpr const char* time_limit = "time limit";

/// The same for computing: without what synchronised batch norm waited for other workers meanwhile.
class ComputeWatch {
 public:
  ComputeWatch(std::int64_t& total_ns, const CommunicatorExchange* exchange)
      : watch_(total_ns), total_ns_(total_ns), exchange_(exchange), begin_wait_ns_(waited_ns()) {}
  ComputeWatch(const ComputeWatch&) = delete;
  ComputeWatch& operator=(const ComputeWatch&) = delete;
  ~ComputeWatch() { total_ns_ -= waited_ns() - begin_wait_ns_; }

 private:
  std::int64_t waited_ns() const { return exchange_ == nullptr ? 0 : exchange_->waited_ns(); }

  Stopwatch watch_;
  std::int64_t& total_ns_;
  const CommunicatorExchange* exchange_;
  std::int64_t begin_wait_ns_;
};

}  // namespace

Trainer::Trainer(Parts parts, const Beginning& beginning)
    : parts_(std::move(parts)),
      run_(parts_.run),
      config_(run_.config),
      sampler_(static_cast<std::uint64_t>(config_.run.seed), run_.data.sharding),
      schedule_(config_.schedule, run_.data.sharding.global_batch()),
      step_(beginning.step),
      position_(beginning.position),
      samples_(beginning.samples),
      last_saved_step_(beginning.step),
      begin_ns_(trace::now_ns()),
      saves_(parts_.run, parts_.reporter, parts_.writers, beginning.checkpoint),
      replaced_(config_.data),
      stragglers_(run_.machine.workers),
      agreement_(run_.machine.workers, *run_.model.network) {
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
  const TrainConfig& train = config_.train;
  return (train.epochs > 0 && position.epoch >= train.epochs) || (train.steps > 0 && step >= train.steps);
}

bool Trainer::reports_at(std::int64_t step, const Position& position) const {
  return step % config_.run.log_every == 0 || done_at(step, position);
}

bool Trainer::saves_at(std::int64_t step) const {
  const std::int64_t every = config_.checkpoint.every;
  return every > 0 && step % every == 0;
}

bool Trainer::checks_agreement_at(std::int64_t step, const Position& position) const {
  if (run_.sync.strategy->independent()) return false;
  const std::int64_t every = config_.run.agreement_every;
  return reports_at(step, position) || (every > 0 && step % every == 0);
}

/// Whether the workers do something together then.
bool Trainer::meets_at(std::int64_t step, const Position& position) const {
  return checks_agreement_at(step, position) || position.offset == 0 || saves_at(step) ||
         done_at(step, position);
}

/// Collective. Ends the job where the workers hold different models.
void Trainer::check_agreement() {
  if (last_agreed_step_ == step_) return;
  last_agreed_step_ = step_;
  agreement_due_ = false;
  run_.machine.watchdog.beat("comparing the workers' models", step_);
  const auto different = agreement_.compare(run_.sync.strategy->alike(), step_);
  if (!different) return;
  saves_.finish();
  parts_.failure.end_job_together(
      cat(different->text(run_.machine.workers.size(), step_), "; ", saves_.last_good()), exit_internal_error,
      run_.machine.places[static_cast<std::size_t>(different->ranks.front())].rank);
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
  }
  return !stop_reason_.empty();
}

/// 0 before the first step.
double Trainer::mean_step_s() const {
  return seconds(times_.step_ns) / static_cast<double>(std::max<std::int64_t>(1, times_.steps));
}

/// What has never been measured is taken to be slow: a disk of 100 MB/s, a validation like training.
WorkToCome Trainer::work_to_come() const {
  const Position next = sampler_.after(position_);
  WorkToCome work{.step_s = seconds(longest_step_ns_),
                  .mean_step_s = mean_step_s(),
                  .catch_up_steps = std::min(run_.sync.strategy->most_steps_apart(), times_.steps),
                  .save_s = seconds(longest_saving_ns_) + saves_.longest_write_s()};
  if (run_.sync.strategy->independent()) work.steps = 4;  // those that are ahead agree to stop a little later
  if (work.save_s == 0.0) work.save_s = static_cast<double>(saved_floats_) * sizeof(float) / 100e6;
  if (saves_at(step_ + 1) || (save_clock_ && save_clock_->asks_after(step_ + 1))) ++work.saves;
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

StepOutcome Trainer::step(Loader& loader) {
  const Stopwatch whole(times_.step_ns);
  const Sharding& sharding = run_.data.sharding;
  Strategy& strategy = *run_.sync.strategy;
  Network& network = *run_.model.network;
  learning_rate_ = schedule_.at(progress_of(config_, sharding, position_));
  parts_.failure.set_step(step_);
  if (sharding.micro_steps > 1) strategy.clear_gradients();
  if (asked_to_stop()) strategy.vote_to_stop();
  const DeviceSpan<float> sums = strategy.loss_sums();
  const DeviceScalar<float> scale = run_.model.backward_scale();
  const std::int64_t computed_before_ns = times_.forward_ns + times_.backward_ns;

  for (std::int64_t micro_step = 0; micro_step < sharding.micro_steps; ++micro_step) {
    const Batch& batch = take_batch(loader);
    const Targets targets{.labels = batch.labels,
                          .valid = batch.valid,
                          .other_labels = batch.partner_labels,
                          .other_share = batch.partner_share};
    const HostBatch input = input_of(batch);
    {
      const trace::Span span("forward");
      const ComputeWatch watch(times_.forward_ns, run_.machine.exchange.get());
      run_.machine.watchdog.beat("computing", step_);
      const std::int64_t pass =
          (step_ * sharding.workers + run_.machine.workers.rank()) * sharding.micro_steps + micro_step;
      network.forward(input, targets, {Pass::training, static_cast<std::uint64_t>(pass)}, sums);
      log_clicks(batch);
    }
    {
      const trace::Span span("backward");
      const ComputeWatch watch(times_.backward_ns, run_.machine.exchange.get());
      const std::int64_t begin_ns = trace::now_ns();
      const bool last = micro_step + 1 == sharding.micro_steps;
      network.backward(targets, scale, [&](std::int64_t begin) {
        if (!last) return;
        // Before the last gradients are handed over: the other workers are to feel it in this step.
        if (begin == 0)
          pause_if_emulated(times_.forward_ns + times_.backward_ns - computed_before_ns + trace::now_ns() -
                            begin_ns);
        strategy.gradient_ready(begin);
      });
      if (!last) strategy.end_micro_step(micro_step);
    }
    learn_rows(batch, loader);
  }
  const Position next = sampler_.after(position_);
  const std::int64_t stall_ns_before = times_.stall_ns;
  saves_.wait_until_read(step_);
  times_.stall_ns = saves_.stall_ns();
  times_.step_ns -= times_.stall_ns - stall_ns_before;
  asks_clock_ = save_clock_ && save_clock_->asks_after(step_ + 1) && strategy.may_meet_after_step();
  const bool meets = meets_at(step_ + 1, next) || asks_clock_;
  const StepOutcome outcome =
      strategy.finish_step({.step = step_,
                            .learning_rate = learning_rate_,
                            .epochs_after = progress_of(config_, sharding, next).epochs,
                            .mean_step_s = mean_step_s(),
                            .meet = meets,
                            .outcome_now = meets || !run_.machine.device->runs_ahead() ||
                                           (run_.model.loss_scale.enabled() && !run_.model.overflow_guard)});
  run_.machine.device->submit();
  stragglers_.after_step(strategy.times().meetings, step_times());
  times_.read_ns = loader.read_ns();
  ++times_.steps;
  ++step_;
  samples_ += sharding.global_batch();
  position_ = next;
  return outcome;
}

/// The next batch, which may have been looked at before.
const Batch& Trainer::take_batch(Loader& loader) {
  if (const Batch* ahead = std::exchange(ahead_, nullptr)) return *ahead;
  // The loader fills the last one anew. A device that runs ahead is waited for here, which is not the
  // loader's doing.
  run_.machine.device->finish_staging();
  const trace::Span span("wait for input");
  const Stopwatch watch(times_.input_ns);
  run_.machine.watchdog.beat("waiting for input", step_);
  const Batch& batch = loader.next();
  replaced_.add(batch, *run_.data.training);
  return batch;
}

HostBatch Trainer::input_of(const Batch& batch) {
  return run_.sync.embeddings ? run_.sync.embeddings->features(batch, step_) : batch.input();
}

/// After backward: the gradients of the rows that the batch named go to the servers with the others, and the
/// rows of the next batch come back.
void Trainer::learn_rows(const Batch& batch, Loader& loader) {
  if (!run_.sync.embeddings) return;
  const Tensor& gradient = run_.model.network->input_gradient();
  run_.sync.embeddings->add_gradient(batch, gradient_staging_->read(gradient), run_.model.loss_scale);
  if (!run_.sync.looks_ahead()) return;
  ahead_ = &take_batch(loader);
  run_.sync.embeddings->look_ahead(*ahead_);
}

void Trainer::log_clicks(const Batch& batch) {
  if (!clicks_) return;
  run_.machine.device->download_values(run_.model.network->logits(), logits_);
  const auto valid = static_cast<std::size_t>(batch.valid);
  clicks_->add(std::span<const float>(logits_).first(2 * valid), batch.labels.first(valid));
}

void Trainer::pause_if_emulated(std::int64_t compute_ns) {
  if (!run_.machine.straggler->emulates()) return;
  run_.machine.watchdog.beat("in an emulated pause", step_);
  const std::int64_t pause_ns = run_.machine.straggler->pause(step_, compute_ns);
  times_.pause_ns += pause_ns;
  times_.backward_ns -= pause_ns;
}

StepTimes Trainer::step_times() const {
  const StrategyTimes strategy = run_.sync.times();
  StepTimes total{.wait_ns = strategy.exposed_comm_ns};
  total[Phase::input] = times_.input_ns;
  total[Phase::compute] = times_.forward_ns + times_.backward_ns;
  total[Phase::optimizer] = strategy.optimizer_ns;
  total[Phase::saving] = times_.saving_ns;
  total[Phase::validation] = times_.validation_ns;
  total[Phase::pause] = times_.pause_ns;
  std::int64_t told_ns = total.wait_ns;
  for (const std::int64_t ns : total.phase_ns) told_ns += ns;
  total[Phase::rest] = trace::now_ns() - begin_ns_ - told_ns;
  return total;
}

Ending Trainer::run() {
  const auto loader = make_loader();
  run_.machine.device->synchronize();
  queue_.emplace(flotilla::computing_threads(computing_threads()));
  if (config_.checkpoint.every_s > 0.0)
    save_clock_.emplace(config_.checkpoint.every_s, step_, trace::now_ns());
  while (!done()) {
    const std::int64_t step_ns_before = times_.step_ns;
    const StepOutcome outcome = step(*loader);
    longest_step_ns_ = std::max(longest_step_ns_, times_.step_ns - step_ns_before);
    if (times_.steps > unrated_steps) {
      ++rated_steps_;
      rated_ns_ += times_.step_ns - step_ns_before;
    } else {
      unrated_input_ = all_input_times();
      unrated_queued_ns_ = queue_->waited_ns();
      rated_begin_ns_ = trace::now_ns();
    }
    if (!outcome.note.empty()) parts_.reporter.say(outcome.note);
    check_finite(outcome);
    if (position_.offset == 0 || done() || outcome.stop)
      replaced_.end_epoch(epoch_of_last_step(), *run_.data.training, run_.machine.workers, parts_.reporter,
                          parts_.failure);
    agreement_due_ = agreement_due_ || checks_agreement_at(step_, position_);
    // Where workers differ between averagings, after the next one.
    if (agreement_due_ && !run_.sync.strategy->alike().parameters.empty()) check_agreement();
    if (reports_at(step_, position_) || outcome.stop) report(outcome);
    if (position_.offset == 0 && clicks_) clicks_->clear();
    if (outcome.stop) {
      if (stop_reason_.empty()) stop_reason_ = "stopped";  // another worker was asked
      run_.machine.watchdog.clear_deadline();
      save();
      if (validates_now()) validate();  // a resumed run would not
      break;
    }
    if (validates_now()) validate();
    if (is_time_to_save() || saves_at(step_)) save();
  }
  const bool stopped = !done() || !stop_reason_.empty();
  if (!stopped) {
    validate();
    save();
  }
  saves_.finish_last(step_);
  report_waiting();
  report_input();
  report_processors();
  run_.machine.workers.barrier(step_);
  run_.machine.watchdog.beat("ending", step_);
  return {.reason = stopped ? stop_reason_ : "done",
          .step = step_,
          .stopped = stopped,
          .too_short =
              times_.steps <= 1 && stop_reason_ == time_limit && parts_.limit.is_slurms(trace::now_ns())};
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
  // Statistics may be this worker's own although all have met.
  const bool all_see_it =
      outcome.all_workers && (!loss_is_finite || !run_.sync.strategy->alike().statistics.empty());
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
  const std::string what = cat(scale.consecutive_overflows(), " steps in a row overflowed in ",
                               config_.device.precision, " at the loss scale ", scale.scale(),
                               ", which cannot fall any further (device.precision = \"bfloat16\" needs none",
                               config_.device.loss_scale.kind == "static" ? "; try a smaller one" : "", ")");
  if (outcome.skipped_by_all) end_diverged(what);
  end_diverged_alone(what);
}

std::string Trainer::divergence(const std::string& what, const std::string& where) const {
  return cat(what, " after step ", step_, " (learning rate ", learning_rate_, "): ", where,
             "training diverged, nothing more was saved; try a smaller schedule.learning_rate or "
             "train.gradient_clip_norm; ",
             saves_.last_good());
}

/// Collective. Ends the job once what is being written is known to be good.
void Trainer::end_diverged(const std::string& what) {
  saves_.finish();
  parts_.failure.end_job_together(divergence(what, where_not_finite()), exit_user_error,
                                  run_.machine.places.front().rank);
}

/// The same where the others do not know of it: their own samples may be good.
void Trainer::end_diverged_alone(const std::string& what) {
  saves_.finish();
  const std::string layer = run_.model.network->first_non_finite();
  const std::string where = layer.empty() ? "" : cat("the output of ", layer, " is not finite; ");
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

/// An epoch has ended after which the deck wants it.
bool Trainer::validates_at(const Position& position) const {
  const std::int64_t every = config_.validation.every;
  return position.offset == 0 && every > 0 && position.epoch % every == 0;
}

std::int64_t Trainer::epoch_of_last_step() const {
  return position_.offset == 0 && position_.epoch > 0 ? position_.epoch - 1 : position_.epoch;
}

}  // namespace flotilla
