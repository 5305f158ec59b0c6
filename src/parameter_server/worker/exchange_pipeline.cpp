// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/worker/exchange_pipeline.hpp"

#include "kernels/error.hpp"

namespace flotilla {

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
  parts_.traffic.sent_bytes += sent_bytes_;
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

}  // namespace flotilla
