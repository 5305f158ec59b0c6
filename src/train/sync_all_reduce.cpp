// SPDX-License-Identifier: Apache-2.0
#include "src/train/sync_all_reduce.hpp"

#include <algorithm>
#include <array>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

void SyncAllReduce::start() {
  parts_.workers.broadcast(std::span<float>(parts_.parameters.address(), parts_.parameters.size()));
  for (const OptimizerSlot& slot : parts_.optimizer.slots())
    parts_.workers.broadcast(std::span<float>(slot.values.address(), slot.values.size()));
}

void SyncAllReduce::vote_to_stop() {
  parts_.device.flat().fill(parts_.gradients.subspan(passenger_stop, 1), 1.0F);
}

std::span<float> SyncAllReduce::host(const Bucket& bucket) const {
  const auto part = parts_.gradients.subspan(static_cast<std::size_t>(bucket.begin),
                                             static_cast<std::size_t>(bucket.end - bucket.begin));
  return {part.address(), part.size()};
}

void SyncAllReduce::gradient_ready(std::int64_t begin) {
  if (parts_.thread == nullptr) return;
  // The passengers are final since the forward pass, so the last bucket is ready with the first gradient.
  const std::int64_t final_from = begin == 0 ? 0 : begin + passenger_floats;
  for (; started_ < parts_.buckets.size() && parts_.buckets[started_].begin >= final_from; ++started_)
    parts_.thread->start(host(parts_.buckets[started_]));
}

void SyncAllReduce::all_reduce(std::size_t bucket, std::int64_t step) {
  const trace::Span span("all-reduce");
  parts_.watchdog.beat("all-reduce of bucket", step, static_cast<std::int64_t>(bucket));
  parts_.collectives.all_reduce(host(parts_.buckets[bucket]));
}

StepOutcome SyncAllReduce::finish_step(const StepInfo& info) {
  const std::int64_t begin_ns = trace::now_ns();
  if (parts_.thread == nullptr) {
    for (std::size_t i = 0; i < parts_.buckets.size(); ++i) all_reduce(i, info.step);
  } else {
    require(started_ == parts_.buckets.size(), "bucket ", started_, " was never ready");
    const trace::Span span("wait for all-reduce");
    parts_.watchdog.beat("all-reduce of buckets up to", info.step, static_cast<std::int64_t>(started_) - 1);
    parts_.thread->finish();
  }
  started_ = 0;
  const std::int64_t reduced_ns = trace::now_ns();
  times_.exposed_comm_ns += reduced_ns - begin_ns;
  for (const Bucket& bucket : parts_.buckets)
    times_.sent_bytes += static_cast<std::int64_t>(
        parts_.collectives.sent_bytes(static_cast<std::size_t>(bucket.end - bucket.begin)));

  std::array<float, passenger_floats> sums{};
  parts_.device.download(parts_.gradients.subspan(0, sums.size()), sums);
  parts_.device.flat().fill(parts_.gradients.subspan(0, sums.size()), 0.0F);

  const trace::Span span("optimizer");
  const auto gradients = parts_.gradients.subspan(
      passenger_floats, parts_.gradients.size() - static_cast<std::size_t>(passenger_floats));
  double scale = 1.0 / parts_.collectives.ranks();
  if (parts_.clip_norm > 0.0) scale *= clip_factor(parts_.device.flat(), gradients, scale, parts_.clip_norm);
  parts_.optimizer.step(parts_.parameters, gradients, info.learning_rate, scale);
  times_.optimizer_ns += trace::now_ns() - reduced_ns;

  const double samples = std::max(1.0F, sums[sum_samples]);
  return {.loss = sums[sum_loss] / samples,
          .accuracy_top1 = sums[sum_top1] / samples,
          .accuracy_top5 = sums[sum_top5] / samples,
          .stop = sums[passenger_stop] > 0.0F};
}

}  // namespace flotilla
