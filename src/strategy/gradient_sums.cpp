// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/gradient_sums.hpp"

#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "src/strategy/reduce/power_sgd.hpp"

namespace flotilla {

GradientSums::GradientSums(Parts parts) : parts_(std::move(parts)), together_(parts_.reduction != nullptr) {
  if (parts_.reduction != nullptr) summands_ = parts_.reduction->first().ranks();
  if (parts_.shards != nullptr) summands_ *= parts_.shards->shards();
}

void GradientSums::vote_to_stop() {
  parts_.device.flat().fill(parts_.gradients.subspan(header_stop, 1), 1.0F);
}

void GradientSums::begin_micro_steps() {
  if (parts_.shards != nullptr) return;  // each shard writes its own; clear_header() has cleared what leads
  parts_.device.flat().fill(parts_.gradients, 0.0F);
}

void GradientSums::end_micro_step(std::int64_t micro_step) {
  if (parts_.shards == nullptr) return;
  parts_.shards->keep(micro_step);
  clear_header();
}

void GradientSums::clear_header() {
  parts_.device.flat().fill(leading_part(parts_.gradients, parts_.model), 0.0F);
}

/// The bucket with what this worker has to give.
DeviceSpan<float> GradientSums::complete(std::size_t bucket) {
  const Bucket& range = parts_.buckets[bucket];
  if (parts_.shards != nullptr) parts_.shards->finish(range.begin, range.end);
  return span_of(parts_.gradients, range);
}

void GradientSums::add_ready(std::int64_t begin, std::int64_t step) {
  if (parts_.lanes == nullptr || !together_ || compresses(step)) return;
  // Header and statistics are final since the forward pass, so the last bucket is ready with the first
  // gradient.
  const std::int64_t final_from =
      begin == 0 ? 0 : begin + static_cast<std::int64_t>(leading_floats(parts_.model));
  for (; started_ < parts_.buckets.size() && parts_.buckets[started_].begin >= final_from; ++started_)
    parts_.lanes->start(complete(started_), step);
}

bool GradientSums::compresses(std::int64_t step) const {
  return parts_.reduction->compression && parts_.reduction->compression->compresses(step);
}

void GradientSums::all_reduce(std::size_t bucket, std::int64_t step) {
  const trace::Span span("all-reduce");
  parts_.watchdog.beat("all-reduce of bucket", step, static_cast<std::int64_t>(bucket));
  mpi::all_reduce_now(parts_.reduction->first(), complete(bucket), step);
}

/// Counts and sums that the wire would round. Meanwhile the buckets are on their way.
void GradientSums::all_reduce_exactly(std::int64_t step) {
  mpi::Collectives* exact = parts_.reduction->exact.get();
  if (exact == nullptr) return;
  const trace::Span span("all-reduce of sums");
  parts_.watchdog.beat("all-reduce of sums", step);
  mpi::all_reduce_now(*exact, leading_part(parts_.gradients, parts_.model), step);
  parts_.traffic.count(*exact, Sent::sums, leading_floats(parts_.model), parts_.model.statistics.size());
}

void GradientSums::wait(std::int64_t step) {
  if (!together_) return;
  if (compresses(step)) {
    PowerSgd& compression = *parts_.reduction->compression;
    compression.sum(step);
    parts_.traffic.bytes(Sent::gradients) += static_cast<std::int64_t>(compression.sent_bytes());
    return;
  }
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
    parts_.traffic.count(parts_.reduction->first(), Sent::gradients,
                         static_cast<std::size_t>(bucket.end - bucket.begin),
                         bucket.begin == 0 ? parts_.model.statistics.size() : 0);
}

std::vector<std::string> GradientSums::description() const {
  const Reduction& reduction = *parts_.reduction;
  std::vector<std::string> lines = {cat("all-reduce   ", reduction.description, ", ",
                                        describe(parts_.buckets),
                                        reduction.first().queues()  ? ", queued on the device"
                                        : parts_.lanes == nullptr   ? ", in the training thread"
                                        : parts_.lanes->size() == 1 ? ", on a thread of its own"
                                                                    : ", on threads of their own")};
  for (const std::string& line : reduction.table) lines.push_back(cat("  measured   ", line));
  if (reduction.compression) lines.push_back(reduction.compression->description());
  return lines;
}

}  // namespace flotilla
