// SPDX-License-Identifier: Apache-2.0
#include "src/train/training_step.hpp"

#include <array>
#include <utility>

#include "kernels/trace.hpp"
#include "src/observe/stopwatch.hpp"
#include "src/parameter_server/worker/served_worker.hpp"

namespace flotilla {

namespace {

/// A phase of the step: a span of the trace, whose time is added to a total.
class PhaseSpan {
 public:
  PhaseSpan(const char* name, std::int64_t& total_ns) : span_(name), watch_(total_ns) {}

 private:
  trace::Span span_;
  Stopwatch watch_;
};

/// A phase of computing, without the time that synchronised batch norm waits for other workers in it.
class ComputeSpan {
 public:
  ComputeSpan(const char* name, std::int64_t& total_ns, const CommunicatorExchange* exchange)
      : span_(name, total_ns), total_ns_(total_ns), exchange_(exchange), begin_wait_ns_(waited_ns()) {}
  ComputeSpan(const ComputeSpan&) = delete;
  ComputeSpan& operator=(const ComputeSpan&) = delete;
  ~ComputeSpan() { total_ns_ -= waited_ns() - begin_wait_ns_; }

 private:
  std::int64_t waited_ns() const { return exchange_ == nullptr ? 0 : exchange_->waited_ns(); }

  PhaseSpan span_;
  std::int64_t& total_ns_;
  const CommunicatorExchange* exchange_;
  std::int64_t begin_wait_ns_;
};

}  // namespace

StepOutcome TrainingStep::take(Loader& loader, const StepPlan& plan) {
  const Stopwatch whole(state_.times.step_ns);
  const std::int64_t computed_before_ns = state_.times.forward_ns + state_.times.backward_ns;
  begin(plan);
  for (std::int64_t micro_step = 0; micro_step < run_.data.sharding.micro_steps; ++micro_step) {
    const Batch& batch = take_batch(loader);
    forward(batch, input_of(batch, loader), micro_step);
    backward(batch, micro_step, computed_before_ns);  // the sums get each gradient as it becomes final
    push_rows(batch, loader);
  }
  wait_for_save();
  const Position next = sampler_.after(state_.position);
  const StepInfo step = info(next, plan);
  {
    const Stopwatch waiting(state_.times.sums_ns);
    run_.sync.sums->wait(step.step);
  }
  StepOutcome outcome;
  if (ModelUpdate* const update = run_.sync.update.get()) {  // null: the servers update, in the exchange
    const PhaseSpan updating("optimizer", state_.times.optimizer_ns);
    const bool overflowed = prepare_update(step);
    outcome = update->outcome(outcome_now(step));
    if (!overflowed) {  // otherwise the step is skipped
      update->limit_norm();
      update->apply(step.learning_rate);
      if (run_.sync.embeddings) run_.sync.embeddings->train(step.learning_rate, update->optimizer().steps());
    }
    update->finish_step(overflowed, outcome);
    update->average_weights();
  } else {
    outcome = served_outcome();
  }
  {
    const Stopwatch waiting(state_.times.sums_ns);
    outcome = run_.sync.strategy->exchange(step, outcome);  // averages over the workers, or pushes and pulls
  }
  run_.sync.sums->clear_header();
  count(loader, next);
  return outcome;
}

TrainingStep::TrainingStep(RunParts& run, FailureHandler& failure, Saves& saves, const Sampler& sampler,
                           TrainingState& state)
    : run_(run),
      failure_(failure),
      saves_(saves),
      sampler_(sampler),
      state_(state),
      schedule_(run.config.schedule, run.data.sharding.global_batch()),
      end_(end_of(run.config.train, run.data.sharding, state.step, state.position)),
      replaced_(run.config.data) {
  const Network& network = *run.model.network;
  if (!run.sync.embeddings) return;
  results_.emplace(*run.machine.device, network, run.model.gradients());
  clicks_.emplace(static_cast<std::size_t>(network.batch()));
}

void TrainingStep::begin(const StepPlan& plan) {
  const Sharding& sharding = run_.data.sharding;
  state_.learning_rate = schedule_.at(progress_at(sharding, state_.position, end_, state_.reductions));
  failure_.set_step(state_.step);
  if (sharding.micro_steps > 1) run_.sync.sums->begin_micro_steps();
  run_.sync.strategy->begin_step(plan.asks_to_stop);
}

const Batch& TrainingStep::load_batch(Loader& loader) {
  // The loader reuses the previous batch. The wait here is for a device that lags behind the host, so it is
  // not counted as input time.
  run_.machine.device->tensors().finish_staging();
  const PhaseSpan span("wait for input", state_.times.input_ns);
  run_.machine.watchdog.beat("waiting for input", state_.step);
  const Batch& batch = loader.next();
  replaced_.add(batch, *run_.data.training);
  return batch;
}

/// The next batch, which may have been looked at before.
const Batch& TrainingStep::take_batch(Loader& loader) {
  if (ahead_.empty()) return load_batch(loader);
  const Batch& batch = *ahead_.front();
  ahead_.pop_front();
  return batch;
}

/// The batch that is `batches` batches after this step's.
const Batch& TrainingStep::look_ahead(Loader& loader, std::size_t batches) {
  while (ahead_.size() < batches) ahead_.push_back(&load_batch(loader));
  return *ahead_[batches - 1];
}

HostBatch TrainingStep::input_of(const Batch& batch, Loader& loader) {
  if (!run_.sync.embeddings) return batch.input();
  const std::span<float> features = run_.sync.embeddings->features(batch, state_.step);
  if (run_.sync.rows_ahead() > 1) run_.sync.embeddings->fetch_next(look_ahead(loader, 1), state_.step);
  return features;
}

void TrainingStep::forward(const Batch& batch, const HostBatch& input, std::int64_t micro_step) {
  const Sharding& sharding = run_.data.sharding;
  const ComputeSpan span("forward", state_.times.forward_ns, run_.machine.exchange.get());
  run_.machine.watchdog.beat("computing", state_.step);
  const std::int64_t pass =
      (state_.step * sharding.workers + run_.machine.workers.rank()) * sharding.micro_steps + micro_step;
  run_.model.network->forward(input, batch.targets(), {Pass::training, static_cast<std::uint64_t>(pass)},
                              run_.sync.sums->loss_sums());
}

void TrainingStep::backward(const Batch& batch, std::int64_t micro_step, std::int64_t computed_before_ns) {
  const ComputeSpan span("backward", state_.times.backward_ns, run_.machine.exchange.get());
  const std::int64_t begin_ns = trace::now_ns();
  const bool last = micro_step + 1 == run_.data.sharding.micro_steps;
  run_.model.network->backward(batch.targets(), run_.model.backward_scale(), [&](std::int64_t begin) {
    if (!last) return;
    // Pauses before the last gradients are handed over: the other workers must wait for them in this step.
    if (begin == 0)
      pause_if_emulated(state_.times.forward_ns + state_.times.backward_ns - computed_before_ns +
                        trace::now_ns() - begin_ns);
    run_.sync.sums->add_ready(begin, state_.step);
  });
  if (!last) run_.sync.sums->end_micro_step(micro_step);
}

/// The gradients of the rows that the batch named go to the servers with the others, and the rows of a later
/// batch come back.
void TrainingStep::push_rows(const Batch& batch, Loader& loader) {
  if (!run_.sync.embeddings) return;
  results_->read(*run_.model.network);
  const auto valid = static_cast<std::size_t>(batch.valid);
  clicks_->add(results_->logits().first(2 * valid), batch.labels.first(valid));
  run_.sync.embeddings->add_gradient(batch, results_->gradient(), run_.model.loss_scale);
  const std::size_t ahead = run_.sync.rows_ahead();
  if (ahead > 0) run_.sync.embeddings->prefetch_rows(look_ahead(loader, ahead));
}

/// Waits until the checkpoint writer has finished reading the model. This stall is not counted as step time.
void TrainingStep::wait_for_save() {
  const std::int64_t stall_ns_before = state_.times.stall_ns;
  saves_.wait_until_read(state_.step);
  state_.times.stall_ns = saves_.stall_ns();
  state_.times.step_ns -= state_.times.stall_ns - stall_ns_before;
}

StepInfo TrainingStep::info(const Position& next, const StepPlan& plan) const {
  return {.step = state_.step,
          .learning_rate = state_.learning_rate,
          .epochs_after = epochs_at(run_.data.sharding, next),
          .mean_step_s = state_.times.mean_step_s(),
          .synchronise = plan.synchronise};
}

/// Whether the outcome of this step is needed; otherwise that of the previous step is used, so that the host
/// does not wait for the device. Equal on every worker.
bool TrainingStep::outcome_now(const StepInfo& info) const {
  return info.synchronise || !run_.machine.device->info().runs_ahead || run_.config.all_reduce() == nullptr ||
         (run_.model.loss_scale.enabled() && !run_.model.overflow_guard);
}

bool TrainingStep::prepare_update(const StepInfo& info) {
  return run_.sync.update->prepare(info.learning_rate, run_.sync.sums->summands()) ||
         (run_.sync.embeddings && !run_.sync.embeddings->gradients_are_finite());
}

/// The outcome over this worker's samples, where servers update the model.
StepOutcome TrainingStep::served_outcome() const {
  const bool all_workers = run_.config.server()->mode == ServerMode::sync;
  if (results_) return outcome_of_sums(results_->header(), all_workers);
  std::array<float, header_size> sums{};
  run_.machine.device->memory().download(run_.model.gradients().subspan(0, header_size), sums);
  return outcome_of_sums(sums, all_workers);
}

void TrainingStep::pause_if_emulated(std::int64_t compute_ns) {
  if (!run_.machine.straggler->emulates()) return;
  run_.machine.watchdog.beat("in an emulated pause", state_.step);
  const std::int64_t pause_ns = run_.machine.straggler->pause(state_.step, compute_ns);
  state_.times.pause_ns += pause_ns;
  state_.times.backward_ns -= pause_ns;
}

void TrainingStep::count(const Loader& loader, const Position& next) {
  run_.machine.device->queue().submit();
  state_.times.read_ns = loader.read_ns();
  state_.times.exchange_ns = run_.sync.waited_ns();
  ++state_.times.steps;
  ++state_.step;
  state_.samples += run_.data.sharding.global_batch();
  state_.position = next;
}

}  // namespace flotilla
