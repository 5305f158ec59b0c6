// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/sync_all_reduce.hpp"

#include <algorithm>
#include <array>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/layer.hpp"
#include "src/strategy/overflow.hpp"

namespace flotilla {

SyncAllReduce::SyncAllReduce(Parts parts)
    : parts_(std::move(parts)),
      averaged_(parts_.reduction.first().ranks() * (parts_.shards == nullptr ? 1 : parts_.micro_steps)),
      statistics_decay_(statistics_decay(parts_.shards == nullptr ? parts_.micro_steps : 1)),
      late_(parts_.device) {
  if (parts_.average_decay > 0.0) average_.emplace(parts_.device, parts_.model, parts_.average_decay);
  if (parts_.overflow_guard != nullptr)
    statistics_before_ = parts_.device.memory().allocate(parts_.model.statistics.size());
}

void SyncAllReduce::start() {
  broadcast(parts_.device, parts_.workers, live());
  begin_guard();
}

/// Values may be loaded into the arrays.
std::vector<StateArray> SyncAllReduce::live() {
  if (halves_ != nullptr) halves_->expire();
  std::vector<StateArray> arrays = state_arrays(parts_.model, &parts_.optimizer);
  if (average_)
    for (StateArray& array : average_->arrays()) arrays.push_back(std::move(array));
  return arrays;
}

StrategyState SyncAllReduce::state() {
  return {.shared = live(),
          .own = {},
          .numbers = average_ ? average_->numbers() : std::map<std::string, double>{},
          .optimizer_steps = parts_.optimizer.steps()};
}

/// Workers that held scales and counts of their own may have to share them now.
void SyncAllReduce::resume(const Resumption& resumed) {
  step_ = resumed.steps;
  if (average_) average_->set_numbers(resumed.numbers);
  if (!together_) return;
  LossScale::State state = parts_.loss_scale.state();
  parts_.workers.broadcast(std::span<double>(state));
  parts_.loss_scale.set_state(state);
  std::int64_t optimizer_steps = parts_.optimizer.steps();
  parts_.workers.broadcast(std::span(&optimizer_steps, 1));
  parts_.optimizer.set_steps(optimizer_steps);
  begin_guard();
}

void SyncAllReduce::begin_guard() {
  if (parts_.overflow_guard != nullptr)
    parts_.overflow_guard->begin(parts_.loss_scale.now(), parts_.optimizer.steps());
}

void SyncAllReduce::clear_gradients() {
  if (parts_.shards != nullptr) return;  // each shard writes its own; finish_step has cleared what leads
  parts_.device.flat().fill(parts_.gradients, 0.0F);
}

void SyncAllReduce::end_micro_step(std::int64_t micro_step) {
  if (parts_.shards == nullptr) return;
  parts_.shards->keep(micro_step);
  parts_.device.flat().fill(leading_part(parts_.gradients, parts_.model), 0.0F);
}

/// The bucket with what this worker has to give.
DeviceSpan<float> SyncAllReduce::complete(std::size_t bucket) {
  const Bucket& range = parts_.buckets[bucket];
  if (parts_.shards != nullptr) parts_.shards->finish(range.begin, range.end);
  return span_of(parts_.gradients, range);
}

void SyncAllReduce::vote_to_stop() {
  parts_.device.flat().fill(parts_.gradients.subspan(header_stop, 1), 1.0F);
}

void SyncAllReduce::gradient_ready(std::int64_t begin) {
  if (parts_.lanes == nullptr || !together_) return;
  // Header and statistics are final since the forward pass, so the last bucket is ready with the first
  // gradient.
  const std::int64_t final_from =
      begin == 0 ? 0 : begin + static_cast<std::int64_t>(leading_floats(parts_.model));
  for (; started_ < parts_.buckets.size() && parts_.buckets[started_].begin >= final_from; ++started_)
    parts_.lanes->start(complete(started_), step_);
}

void SyncAllReduce::all_reduce(std::size_t bucket, std::int64_t step) {
  const trace::Span span("all-reduce");
  parts_.watchdog.beat("all-reduce of bucket", step, static_cast<std::int64_t>(bucket));
  mpi::all_reduce_now(parts_.reduction.first(), complete(bucket), step);
}

/// Counts and sums that a half wire would round. Meanwhile the buckets are on their way.
void SyncAllReduce::all_reduce_exactly(std::int64_t step) {
  mpi::Collectives* exact = parts_.reduction.exact.get();
  if (exact == nullptr) return;
  const trace::Span span("all-reduce of sums");
  parts_.watchdog.beat("all-reduce of sums", step);
  mpi::all_reduce_now(*exact, leading_part(parts_.gradients, parts_.model), step);
  times_.sent_bytes += static_cast<std::int64_t>(exact->sent_bytes(leading_floats(parts_.model)));
}

/// running ← μᵏ · running + mean over the workers of Σ μᵏ⁻ⁱ (1 − μ) · batch of micro-step i, the k
/// micro-steps' sum being what the step statistics hold. Of shards: μ · running + (1 − μ) · mean over them.
void SyncAllReduce::update_statistics() {
  const auto running = parts_.model.statistics;
  if (running.empty()) return;
  const auto step = statistics_part(parts_.gradients, parts_.model);
  FlatMath& flat = parts_.device.flat();
  if (fixed_statistics_) fixed_statistics_->take(running);
  flat.scale(running, statistics_decay_);
  flat.axpy(1.0F / static_cast<float>(averaged()), step, running);
  if (fixed_statistics_) fixed_statistics_->put_back(running);
}

void SyncAllReduce::reduce(std::int64_t step) {
  all_reduce_exactly(step);
  if (parts_.lanes == nullptr) {
    for (std::size_t i = 0; i < parts_.buckets.size(); ++i) all_reduce(i, step);
  } else {
    require(started_ == parts_.buckets.size(), "bucket ", started_, " was never ready");
    const trace::Span span("wait for all-reduce");
    parts_.watchdog.beat("all-reduce of buckets up to", step, static_cast<std::int64_t>(started_) - 1);
    parts_.lanes->finish();
  }
  started_ = 0;
  for (const Bucket& bucket : parts_.buckets)
    times_.sent_bytes += static_cast<std::int64_t>(
        parts_.reduction.first().sent_bytes(static_cast<std::size_t>(bucket.end - bucket.begin)));
  ++times_.synchronisations;
}

StepOutcome SyncAllReduce::finish_step(const StepInfo& info) {
  const std::int64_t begin_ns = trace::now_ns();
  if (together_) reduce(info.step);
  step_ = info.step + 1;
  const std::int64_t reduced_ns = trace::now_ns();
  times_.exposed_comm_ns += reduced_ns - begin_ns;

  StepOutcome found = parts_.overflow_guard == nullptr ? update_if_finite(info) : update_guarded(info);
  parts_.device.flat().fill(leading_part(parts_.gradients, parts_.model), 0.0F);
  if (average_) average_->update(parts_.model);
  if (halves_ != nullptr) halves_->keep();
  times_.optimizer_ns += trace::now_ns() - reduced_ns;
  found.skipped_by_all = found.skipped;
  return found;
}

/// What the optimizer writes beside the parameters.
HalfCopy SyncAllReduce::half_copy() {
  return halves_ == nullptr ? HalfCopy{} : halves_->target(parts_.model.parameters);
}

StrategyDescription SyncAllReduce::description() const {
  const Reduction& reduction = parts_.reduction;
  StrategyDescription text{
      .transport = std::string(reduction.first().name()),
      .lines = {cat("all-reduce   ", reduction.description, ", ", describe(parts_.buckets),
                    reduction.first().queues()  ? ", queued on the device"
                    : parts_.lanes == nullptr   ? ", in the training thread"
                    : parts_.lanes->size() == 1 ? ", on a thread of its own"
                                                : ", on threads of their own")}};
  for (const std::string& line : reduction.table) text.lines.push_back(cat("  measured   ", line));
  return text;
}

StepOutcome SyncAllReduce::update_if_finite(const StepInfo& info) {
  StepOutcome found = outcome(info);
  const trace::Span span("optimizer");
  const bool taken = can_be_taken(parts_.device, parts_.loss_scale, parts_.gradients);
  if (taken) update(info.learning_rate);
  update_loss_scale(taken, parts_.loss_scale, found);
  return found;
}

/// The host queues the update without knowing whether the step is taken.
StepOutcome SyncAllReduce::update_guarded(const StepInfo& info) {
  const auto report = parts_.gradients.subspan(header_report, report_floats);
  const UpdateNumbers* const numbers = parts_.overflow_guard->check(
      parts_.gradients, static_cast<float>(info.learning_rate), static_cast<double>(averaged()), report);
  StepOutcome found = outcome(info);
  const trace::Span span("optimizer");
  const auto statistics = parts_.model.statistics;
  if (!statistics.empty()) parts_.device.flat().copy(statistics, statistics_before_.span());
  update_statistics();
  if (!statistics.empty()) parts_.overflow_guard->restore(statistics_before_.span(), statistics);
  parts_.optimizer.step(parts_.model.parameters, parameter_part(parts_.gradients, parts_.model), numbers,
                        half_copy());
  parts_.optimizer.set_steps(parts_.optimizer.steps() - not_taken_);
  return found;
}

/// Of what the workers' sums came to. Before they are cleared.
StepOutcome SyncAllReduce::outcome(const StepInfo& info) {
  std::array<float, header_floats> sums{};
  const auto all = parts_.gradients.subspan(0, sums.size());
  if (info.outcome_now) {
    late_.forget();
    parts_.device.memory().download(all, sums);
  } else {
    late_.exchange(all, sums);
  }
  const double samples = std::max(1.0F, sums[sum_samples]);
  StepOutcome found{.loss = sums[sum_loss] / samples,
                    .accuracy_top1 = sums[sum_top1] / samples,
                    .accuracy_top5 = sums[sum_top5] / samples,
                    .stop = sums[header_stop] > 0.0F,
                    .samples = sums[sum_samples],
                    .late = !info.outcome_now};
  if (parts_.overflow_guard != nullptr) {
    const auto report = std::span<const float>(sums).subspan(header_report, report_floats);
    not_taken_ = adopt_device_result(report, parts_.loss_scale, found);
  }
  return found;
}

void SyncAllReduce::update(double learning_rate) {
  update_statistics();
  const auto gradients = parameter_part(parts_.gradients, parts_.model);
  double scale = 1.0 / (static_cast<double>(averaged()) * double{parts_.loss_scale.scale()});
  if (parts_.clip_norm > 0.0) scale *= clip_factor(parts_.device.flat(), gradients, scale, parts_.clip_norm);
  parts_.optimizer.step(parts_.model.parameters, gradients, learning_rate, scale, half_copy());
}

}  // namespace flotilla
