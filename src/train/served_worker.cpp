// SPDX-License-Identifier: Apache-2.0
#include "src/train/served_worker.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "kernels/error.hpp"
#include "src/train/buckets.hpp"
#include "src/train/verdict.hpp"

namespace flotilla {

namespace {

std::span<float> host(DeviceSpan<float> span) {
  return {span.address(), span.size()};
}

}  // namespace

void fill_servers(const ServedWorker& worker, Optimizer* slots, std::int64_t optimizer_steps) {
  require(worker.device.shares_host_memory(), "what goes to servers must lie in host memory");
  worker.workers.broadcast(host(worker.values));
  std::vector<std::span<const float>> arrays;
  if (slots != nullptr)
    for (const OptimizerSlot& slot : slots->slots()) arrays.push_back(host(slot.values));
  worker.servers.fill(host(worker.values), arrays, optimizer_steps);
}

bool can_be_taken(const ServedWorker& worker) {
  return can_be_taken(worker.device, worker.loss_scale, worker.gradients) &&
         (worker.embeddings == nullptr || worker.embeddings->gradients_are_finite());
}

StepOutcome outcome_of_sums(Device& device, DeviceSpan<float> array, bool all_workers) {
  std::array<float, passenger_floats> sums{};
  device.download(array.subspan(0, sums.size()), sums);
  const double samples = std::max(1.0F, sums[sum_samples]);
  return {.loss = sums[sum_loss] / samples,
          .accuracy_top1 = sums[sum_top1] / samples,
          .accuracy_top5 = sums[sum_top5] / samples,
          .stop = sums[passenger_stop] > 0.0F,
          .samples = sums[sum_samples],
          .all_workers = all_workers,
          .skipped = sums[passenger_skip] > 0.0F};
}

std::int64_t exchange(const ServedWorker& worker, const PushAndPull& what) {
  mpi::PushPullWorker& servers = worker.servers.exchange();
  const std::int64_t sent_before = servers.sent_bytes();
  const auto payloads =
      worker.embeddings == nullptr ? std::span<const mpi::Payload>() : worker.embeddings->payloads();
  servers.start_push_pull(what.step, static_cast<int>(what.batches), what.learning_rate, host(what.from),
                          host(what.to), payloads);
  servers.wait();
  if (worker.embeddings != nullptr) worker.embeddings->finish();
  return servers.sent_bytes() - sent_before;
}

StepOutcome meet(const ServedWorker& worker, Meeting& meeting, std::int64_t steps, const StepOutcome& own,
                 DeviceSpan<float> pulled) {
  worker.watchdog.beat("waiting for the other workers", steps - 1);
  meeting.tell(own);
  const StepOutcome outcome = meeting.meet(steps);
  worker.watchdog.beat("pull from the servers", steps - 1);
  mpi::PushPullWorker& servers = worker.servers.exchange();
  servers.start_pull(steps - 1, host(pulled));
  servers.wait();
  worker.workers.barrier();
  return outcome;
}

}  // namespace flotilla
