// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/layer.hpp"
#include "mpi/all_reduce/communication_lanes.hpp"
#include "src/parameter_server/worker/served_worker.hpp"
#include "src/strategy/buckets.hpp"
#include "src/strategy/overflow.hpp"

namespace flotilla {

namespace {

/// Runs the exchange of a step with the servers in parallel with the computation of the next step
/// (server.pipeline = 1), on a thread of its own; one at a time. While one is under way no other request may
/// be sent to the servers.
class ExchangePipeline {
 public:
  ExchangePipeline(const ServedWorker& worker, const ServedThread& thread);

  /// Begins the exchange of a step, with the payloads of the embeddings. `what.from` may change when this
  /// returns; `what.to` is not changed before finish().
  void start(const PushAndPull& what);
  /// Waits for the answer, if an exchange is under way: the servers may be asked other things then.
  void wait();
  /// Sets `what.to` to the answer, once; does nothing if there is none.
  void finish();
  void drop();                                  ///< finish() shall do nothing: something newer was pulled.
  bool has_answer() const { return pending_; }  ///< An exchange was begun whose answer is not in `what.to`.

 private:
  void exchange(std::int64_t step);

  ServedWorker parts_;
  Storage pushed_;                  ///< The values that are pushed, as they were when the exchange began
  Storage pulled_;                  ///< The values that come back
  std::unique_ptr<CopyLane> lane_;  ///< Null: the device shares the host's memory
  CopyLane::Mark mark_ = 0;         ///< Behind the copy into pushed_
  PushAndPull what_;
  std::span<const mpi::Payload> payloads_;
  std::span<float> answer_;  ///< The host's view of pulled_
  bool under_way_ = false;
  bool pending_ = false;
  std::int64_t sent_bytes_ = 0;  ///< Bytes that the last exchange sent
  mpi::CommunicationThread thread_;
};

ExchangePipeline::ExchangePipeline(const ServedWorker& worker, const ServedThread& thread)
    : parts_(worker),
      pushed_(worker.device.memory().allocate(worker.gradients.size())),
      pulled_(worker.device.memory().allocate(worker.values.size())),
      lane_(worker.device.info().shares_host_memory ? nullptr : worker.device.queue().copy_lane()),
      thread_([this](DeviceSpan<float>, const mpi::CallSite& at) { exchange(at.step); }, 1, thread.on_failure,
              thread.sink) {}

void ExchangePipeline::start(const PushAndPull& what) {
  require(!pending_, "an exchange with the servers begins while the answer of the last is not taken over");
  what_ = what;
  parts_.device.flat().copy(what.from, pushed_.span());
  if (lane_) mark_ = lane_->mark();
  if (parts_.embeddings != nullptr) payloads_ = parts_.embeddings->payloads();
  under_way_ = pending_ = true;
  thread_.start(pushed_.span(), what.step);
}

/// Runs on the pipeline's thread.
void ExchangePipeline::exchange(std::int64_t step) {
  const trace::Span span("push and pull");
  mpi::PushPullWorker& servers = parts_.servers.connection();
  const std::int64_t sent_before = servers.sent_bytes();
  const std::span<float> from = parts_.push_staging.map_for_writing(pushed_.span());
  answer_ = parts_.pull_staging.map_for_writing(pulled_.span());
  if (lane_) lane_->download(mark_, pushed_.span(), from);
  servers.start_push_pull({step, static_cast<int>(what_.batches), what_.learning_rate}, from, answer_,
                          payloads_);
  servers.wait();
  if (parts_.embeddings != nullptr) parts_.embeddings->finish();
  if (lane_) lane_->upload(answer_, pulled_.span());
  sent_bytes_ = servers.sent_bytes() - sent_before;
}

void ExchangePipeline::wait() {
  if (!under_way_) return;
  parts_.watchdog.beat("push to the servers and pull", what_.step);
  const trace::Span span("wait for the servers");
  thread_.finish();
  under_way_ = false;
  parts_.traffic.bytes(Sent::servers) += sent_bytes_;
  count_staleness(parts_.traffic, outcome_of_sums(answer_, false));
}

void ExchangePipeline::finish() {
  wait();
  if (pending_) parts_.device.flat().copy(pulled_.span(), what_.to);
  pending_ = false;
}

void ExchangePipeline::drop() {
  wait();
  pending_ = false;
}

/// A worker of parameter servers that run the optimizer: pushes gradients and pulls values.
///
/// server.mode = "sync": in every step, and the servers wait for all workers, with the result of all-reduce.
/// "async": in every step, and no worker waits for another. "half-async": as "async", after push_every steps
/// with the mean of their gradients.
class ParameterServer : public Strategy {
 public:
  /// @param slots optimizer that receives the servers' slots on worker 0, to save them; null on other workers
  ParameterServer(const ServedWorker& worker, Optimizer* slots, const ServedThread& thread);

  void start() override;
  void resume(const Resumption& resumed) override;
  void begin_step(bool asks_to_stop) override;
  StepOutcome exchange(const StepInfo& info, const StepOutcome& own) override;
  Model consensus() override {
    take_newest();
    return parts_.model;
  }
  StrategyState state() override;
  std::vector<StateArray> live() override { return state_arrays(parts_.model, slots_); }
  Replicated replicated() const override {
    return pipeline_ && pipeline_->has_answer() ? Replicated() : Replicated{.model = parts_.model};
  }
  Pace pace() const override {
    return independent_ ? independent_pace(parts_.server(), push_every_, since_push_) : Pace();
  }
  StrategyDescription description() const override;

 private:
  std::optional<StepOutcome> push_pull_step(const StepInfo& info);
  void take_newest();
  void unscale();
  void merge();

  ServedWorker parts_;
  Optimizer* slots_;
  bool independent_;
  std::int64_t push_every_;
  Storage merged_;                       ///< half-async: the sum of the gradients since the last push
  std::int64_t batches_ = 0;             ///< Batches in the next push, without those that overflowed
  std::int64_t since_push_ = 0;          ///< Steps
  std::unique_ptr<MetricSync> metrics_;  ///< Null: workers synchronise in every step
  std::int64_t optimizer_steps_ = 0;     ///< Optimizer steps of the servers
  std::int64_t steps_ = 0;
  std::unique_ptr<ExchangePipeline> pipeline_;  ///< Null: a step waits for its exchange
};

ParameterServer::ParameterServer(const ServedWorker& worker, Optimizer* slots, const ServedThread& thread)
    : parts_(worker),
      slots_(slots),
      independent_(worker.server().mode != ServerMode::sync),
      push_every_(worker.server().mode == ServerMode::half_async ? worker.server().push_every : 1) {
  if (push_every_ > 1) merged_ = parts_.device.memory().allocate(parts_.gradients.size());
  if (independent_) metrics_ = std::make_unique<MetricSync>(parts_.workers);
  if (parts_.server().pipeline > 0) pipeline_ = std::make_unique<ExchangePipeline>(parts_, thread);
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

void ParameterServer::begin_step(bool asks_to_stop) {
  if (!asks_to_stop) return;
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

/// Adds this step's gradients to those since the last push. Statistics decay as in a step with that many more
/// micro-steps.
void ParameterServer::merge() {
  FlatMath& flat = parts_.device.flat();
  const std::size_t rest = parts_.gradients.size() - header_size;
  if (batches_ == 0) flat.fill(merged_.span(), 0.0F);
  if (!parts_.model.statistics.empty())
    flat.scale(statistics_part(merged_.span(), parts_.model), statistics_decay(parts_.micro_steps));
  flat.axpy(1.0F, parts_.gradients.subspan(header_size, rest), merged_.span().subspan(header_size, rest));
}

/// @returns what the servers say; none where a pipeline waits for them later
std::optional<StepOutcome> ParameterServer::push_pull_step(const StepInfo& info) {
  const trace::Span span("push and pull");
  parts_.watchdog.beat("push to the servers and pull", info.step);
  DeviceSpan<float> pushed = parts_.gradients;
  if (push_every_ > 1) {
    pushed = merged_.span();
    FlatMath& flat = parts_.device.flat();
    flat.copy(parts_.gradients.subspan(0, header_size), pushed.subspan(0, header_size));
    if (batches_ > 0) flat.scale(parameter_part(pushed, parts_.model), 1.0F / static_cast<float>(batches_));
  }
  const PushAndPull what{.step = info.step,
                         .batches = batches_,
                         .learning_rate = info.learning_rate,
                         .from = pushed,
                         .to = parts_.values};
  std::optional<StepOutcome> answer;
  if (pipeline_) {
    pipeline_->start(what);
  } else {
    answer = push_pull(parts_, what);
  }
  if (independent_ && batches_ > 0) optimizer_steps_ += parts_.workers.size();
  batches_ = since_push_ = 0;
  return answer;
}

/// With a pipeline, when workers have met: the next step begins with what the servers have now.
void ParameterServer::take_newest() {
  if (!pipeline_ || !pipeline_->has_answer()) return;
  pipeline_->drop();
  pull_alike(parts_, steps_, parts_.values);
  if (parts_.embeddings != nullptr) parts_.embeddings->forget_rows();
}

/// The servers update the model, with what this worker has made of its gradients.
StepOutcome ParameterServer::exchange(const StepInfo& info, const StepOutcome& of_this_worker) {
  steps_ = info.step + 1;
  const bool finite = gradients_are_usable(parts_);
  StepOutcome own = of_this_worker;
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
  if (pipeline_) pipeline_->finish();
  const bool synchronises = metrics_ && (info.synchronise || stops_after(parts_, *metrics_, info));
  const bool exchanges = since_push_ == push_every_ || synchronises;
  const std::optional<StepOutcome> answer = exchanges ? push_pull_step(info) : std::nullopt;
  if (pipeline_ && synchronises) pipeline_->wait();
  // The outcome of all workers; if they do not wait for each other, of what each pushed last.
  StepOutcome outcome = answer.value_or(own);
  if (answer && independent_) count_staleness(parts_.traffic, outcome);
  if (!independent_) {  // decided equally on every worker and server
    update_loss_scale(!outcome.skipped, parts_.loss_scale, outcome);
    outcome.skipped_by_all = outcome.skipped;
    if (!outcome.skipped) ++optimizer_steps_;
  }
  if (synchronises) {
    outcome = meet(parts_, *metrics_, steps_, own);
    if (!pipeline_) pull_alike(parts_, steps_, parts_.values);
    parts_.traffic.bytes(Sent::sums) += metrics_->sent_bytes();
  } else if (independent_) {
    outcome.stop = false;
  }
  if (independent_) {
    outcome.skipped = own.skipped;
    outcome.unrecoverable = own.unrecoverable;
  }
  if (synchronises || !independent_) ++parts_.traffic.synchronisations;
  return outcome;
}

StrategyState ParameterServer::state() {
  take_newest();
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

StrategyDescription ParameterServer::description() const {
  StrategyDescription text = describe(parts_);
  const std::size_t pipelined = pipeline_ ? parts_.gradients.size() + parts_.values.size() : 0;
  text.held_bytes = static_cast<std::int64_t>((merged_.size() + pipelined) * sizeof(float));
  return text;
}

}  // namespace

std::unique_ptr<Strategy> make_parameter_server(const ServedWorker& worker, Optimizer* slots,
                                                const ServedThread& thread) {
  return std::make_unique<ParameterServer>(worker, slots, thread);
}

}  // namespace flotilla
