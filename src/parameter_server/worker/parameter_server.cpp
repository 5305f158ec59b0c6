// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/worker/parameter_server.hpp"

#include <algorithm>
#include <array>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/layer.hpp"
#include "src/strategy/overflow.hpp"

namespace flotilla {

ParameterServer::ParameterServer(const ServedWorker& worker, Optimizer* slots)
    : parts_(worker),
      slots_(slots),
      independent_(worker.server().mode != ServerMode::sync),
      push_every_(worker.server().mode == ServerMode::half_async ? worker.server().push_every : 1) {
  if (push_every_ > 1) merged_ = parts_.device.memory().allocate(parts_.gradients.size());
  if (independent_) metrics_ = std::make_unique<MetricSync>(parts_.workers);
}

void ParameterServer::start() {
  // The slots of a resumed run are worker 0's.
  std::array<std::int64_t, 1> done{slots_ == nullptr ? 0 : slots_->steps()};
  parts_.workers.broadcast(std::span<std::int64_t>(done));
  optimizer_steps_ = done[0];
  fill_servers(parts_, slots_, optimizer_steps_);
}

void ParameterServer::resume(const Resumption& resumed) {
  steps_ = resumed.steps;
}

void ParameterServer::vote_to_stop() {
  if (metrics_) {
    metrics_->ask_to_stop();
  } else {
    parts_.device.flat().fill(parts_.gradients.subspan(header_stop, 1), 1.0F);
  }
}

/// Gradients as the loss has them: no server knows this worker's scale.
void ParameterServer::unscale() {
  const float scale = parts_.loss_scale.scale();
  if (scale == 1.0F) return;
  parts_.device.flat().scale(parameter_part(parts_.gradients, parts_.model), 1.0F / scale);
}

/// Adds this step's to those since the last push. Statistics are those of a step of so many micro-steps more.
void ParameterServer::merge() {
  FlatMath& flat = parts_.device.flat();
  const std::size_t rest = parts_.gradients.size() - header_size;
  if (batches_ == 0) flat.fill(merged_.span(), 0.0F);
  if (!parts_.model.statistics.empty())
    flat.scale(statistics_part(merged_.span(), parts_.model), statistics_decay(parts_.micro_steps));
  flat.axpy(1.0F, parts_.gradients.subspan(header_size, rest), merged_.span().subspan(header_size, rest));
}

void ParameterServer::push_pull_step(const StepInfo& info) {
  const trace::Span span("push and pull");
  parts_.watchdog.beat("push to the servers and pull", info.step);
  DeviceSpan<float> pushed = parts_.gradients;
  if (push_every_ > 1) {
    pushed = merged_.span();
    FlatMath& flat = parts_.device.flat();
    flat.copy(parts_.gradients.subspan(0, header_size), pushed.subspan(0, header_size));
    if (batches_ > 0) flat.scale(parameter_part(pushed, parts_.model), 1.0F / static_cast<float>(batches_));
  }
  times_.sent_bytes += push_pull(parts_, {.step = info.step,
                                          .batches = batches_,
                                          .learning_rate = info.learning_rate,
                                          .from = pushed,
                                          .to = parts_.values});
  if (independent_ && batches_ > 0) optimizer_steps_ += parts_.workers.size();
  batches_ = since_push_ = 0;
}

StepOutcome ParameterServer::finish_step(const StepInfo& info) {
  steps_ = info.step + 1;
  const std::int64_t begin_ns = trace::now_ns();
  const bool finite = can_be_taken(parts_);
  StepOutcome own = outcome_of_sums(parts_.device.memory(), parts_.gradients, !independent_);
  if (finite) {
    unscale();
    if (push_every_ > 1) merge();
    ++batches_;
  }
  if (independent_) {
    update_loss_scale(finite, parts_.loss_scale, own);
    exclude_own_sums(parts_.device, own, parts_.gradients);
  } else if (!finite) {
    parts_.device.flat().fill(parts_.gradients.subspan(header_skip, 1), 1.0F);
  }
  ++since_push_;
  const bool synchronises = metrics_ && (info.synchronise || stops_after(parts_, *metrics_, info));
  const bool exchanges = since_push_ == push_every_ || synchronises;
  if (exchanges) push_pull_step(info);
  // Of all workers; where they do not wait for each other, of what each pushed last.
  StepOutcome outcome =
      exchanges ? outcome_of_sums(parts_.device.memory(), parts_.values, !independent_) : own;
  if (exchanges && independent_) count_staleness(times_, outcome);
  if (!independent_) {  // decided equally on every worker and server
    update_loss_scale(!outcome.skipped, parts_.loss_scale, outcome);
    outcome.skipped_by_all = outcome.skipped;
    if (!outcome.skipped) ++optimizer_steps_;
  }
  parts_.device.flat().fill(leading_part(parts_.gradients, parts_.model), 0.0F);
  if (synchronises) {
    outcome = synchronise(parts_, *metrics_, steps_, own, parts_.values);
    times_.sent_bytes += metrics_->sent_bytes();
  } else if (independent_) {
    outcome.stop = false;
  }
  if (independent_) {
    outcome.skipped = own.skipped;
    outcome.unrecoverable = own.unrecoverable;
  }
  if (synchronises || !independent_) ++times_.synchronisations;
  times_.exposed_comm_ns += trace::now_ns() - begin_ns;
  return outcome;
}

StrategyState ParameterServer::state() {
  StrategyState state{.shared = {}, .own = {}, .numbers = {}, .optimizer_steps = optimizer_steps_};
  if (slots_ != nullptr) {
    parts_.watchdog.beat("pull the optimizer's state from the servers", steps_);
    mpi::PushPullWorker& servers = parts_.servers.connection();
    std::vector<float> array(parts_.values.size());
    std::int64_t number = 0;
    for (const OptimizerSlot& slot : slots_->slots()) {
      servers.start_pull_array(steps_, ++number, array);
      servers.wait();
      parts_.device.memory().upload(std::span(array).subspan(array.size() - slot.values.size()), slot.values);
    }
  }
  if (independent_) parts_.workers.barrier(steps_);  // before a worker pushes again
  state.shared = live();
  return state;
}

std::int64_t ParameterServer::held_bytes() const {
  return static_cast<std::int64_t>(merged_.size() * sizeof(float));
}

}  // namespace flotilla
