// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/trace.hpp"
#include "src/observe/stopwatch.hpp"
#include "src/train/trainer.hpp"

// One optimizer step of one worker.

namespace flotilla {

namespace {

/// A stopwatch for computing, which leaves out the time that synchronised batch norm waits for other workers.
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

/// Until the checkpoint being written needs the model no more: a stall, which is no part of the step's time.
void Trainer::wait_for_save() {
  const std::int64_t stall_ns_before = times_.stall_ns;
  saves_.wait_until_read(step_);
  times_.stall_ns = saves_.stall_ns();
  times_.step_ns -= times_.stall_ns - stall_ns_before;
}

StepOutcome Trainer::step(Loader& loader) {
  const Stopwatch whole(times_.step_ns);
  const Sharding& sharding = run_.data.sharding;
  Strategy& strategy = *run_.sync.strategy;
  learning_rate_ = schedule_.at({.epochs = epochs_at(sharding, position_), .total_epochs = end_.epochs});
  parts_.failure.set_step(step_);
  if (sharding.micro_steps > 1) strategy.clear_gradients();
  if (asked_to_stop()) strategy.vote_to_stop();

  const Computation computation{.sums = strategy.loss_sums(),
                                .scale = run_.model.backward_scale(),
                                .computed_before_ns = times_.forward_ns + times_.backward_ns};
  for (std::int64_t micro_step = 0; micro_step < sharding.micro_steps; ++micro_step) {
    const Batch& batch = take_batch(loader);
    compute(batch, micro_step, computation);
    learn_rows(batch, loader);
  }
  const Position next = sampler_.after(position_);
  wait_for_save();
  asks_clock_ = save_clock_ && save_clock_->asks_after(step_ + 1) && strategy.pace().may_synchronise;
  const bool synchronises = synchronises_at(step_ + 1, next) || asks_clock_;
  const StepOutcome outcome =
      strategy.finish_step({.step = step_,
                            .learning_rate = learning_rate_,
                            .epochs_after = epochs_at(sharding, next),
                            .mean_step_s = mean_step_s(),
                            .synchronise = synchronises,
                            .outcome_now = synchronises || !run_.machine.device->info().runs_ahead ||
                                           (run_.model.loss_scale.enabled() && !run_.model.overflow_guard)});
  run_.machine.device->queue().submit();
  stragglers_.after_step(strategy.times().synchronisations, step_times());
  times_.read_ns = loader.read_ns();
  ++times_.steps;
  ++step_;
  samples_ += sharding.global_batch();
  position_ = next;
  return outcome;
}

/// Forward and backward of one micro-step; the strategy learns which gradients are final as backward goes on.
void Trainer::compute(const Batch& batch, std::int64_t micro_step, const Computation& computation) {
  const Sharding& sharding = run_.data.sharding;
  StepSynchroniser& strategy = *run_.sync.strategy;
  Network& network = *run_.model.network;
  const HostBatch input = input_of(batch);
  {
    const trace::Span span("forward");
    const ComputeWatch watch(times_.forward_ns, run_.machine.exchange.get());
    run_.machine.watchdog.beat("computing", step_);
    const std::int64_t pass =
        (step_ * sharding.workers + run_.machine.workers.rank()) * sharding.micro_steps + micro_step;
    network.forward(input, batch.targets(), {Pass::training, static_cast<std::uint64_t>(pass)},
                    computation.sums);
    log_clicks(batch);
  }
  const trace::Span span("backward");
  const ComputeWatch watch(times_.backward_ns, run_.machine.exchange.get());
  const std::int64_t begin_ns = trace::now_ns();
  const bool last = micro_step + 1 == sharding.micro_steps;
  network.backward(batch.targets(), computation.scale, [&](std::int64_t begin) {
    if (!last) return;
    // Before the last gradients are handed over: the other workers are to wait for them in this step.
    if (begin == 0)
      pause_if_emulated(times_.forward_ns + times_.backward_ns - computation.computed_before_ns +
                        trace::now_ns() - begin_ns);
    strategy.gradient_ready(begin);
  });
  if (!last) strategy.end_micro_step(micro_step);
}

/// The next batch, which may have been looked at before.
const Batch& Trainer::take_batch(Loader& loader) {
  if (const Batch* ahead = std::exchange(ahead_, nullptr)) return *ahead;
  // The loader fills the last one anew. A device that runs ahead is waited for here, which is not the
  // loader's doing.
  run_.machine.device->tensors().finish_staging();
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
  run_.machine.device->tensors().download(run_.model.network->logits(), logits_);
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
  std::int64_t counted_ns = total.wait_ns;
  for (const std::int64_t ns : total.phase_ns) counted_ns += ns;
  total[Phase::rest] = trace::now_ns() - begin_ns_ - counted_ns;
  return total;
}

}  // namespace flotilla
