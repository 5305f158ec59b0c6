// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/worker/served_worker.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/roles.hpp"
#include "src/parameter_server/worker/local_rows.hpp"
#include "src/strategy/buckets.hpp"
#include "src/strategy/overflow.hpp"

namespace flotilla {

void fill_servers(const ServedWorker& worker, Optimizer* slots, std::int64_t optimizer_steps) {
  worker.workers.broadcast(worker.pull_staging.map(worker.values));
  worker.pull_staging.unmap(worker.values);
  std::vector<HostStaging> rooms;
  std::vector<std::span<const float>> arrays;
  if (slots != nullptr)
    for (const OptimizerSlot& slot : slots->slots()) {
      rooms.emplace_back(worker.device, slot.values.size());
      arrays.push_back(rooms.back().read(slot.values));
    }
  worker.servers.fill(worker.pull_staging.read(worker.values), arrays, optimizer_steps);
}

bool gradients_are_usable(const ServedWorker& worker) {
  return gradients_are_usable(worker.device, worker.loss_scale, worker.gradients) &&
         (worker.embeddings == nullptr || worker.embeddings->gradients_are_finite());
}

StepOutcome outcome_of_sums(std::span<const float> sums, bool all_workers) {
  const double samples = std::max(1.0F, sums[sum_samples]);
  return {.loss = sums[sum_loss] / samples,
          .accuracy_top1 = sums[sum_top1] / samples,
          .accuracy_top5 = sums[sum_top5] / samples,
          .stop = sums[header_stop] > 0.0F,
          .samples = sums[sum_samples],
          .staleness = sums[header_staleness],
          .all_workers = all_workers,
          .skipped = sums[header_skip] > 0.0F};
}

StepOutcome push_pull(const ServedWorker& worker, const PushAndPull& what) {
  mpi::PushPullWorker& servers = worker.servers.connection();
  const std::int64_t sent_before = servers.sent_bytes();
  const auto payloads =
      worker.embeddings == nullptr ? std::span<const mpi::Payload>() : worker.embeddings->payloads();
  const std::span<float> answer = worker.pull_staging.map_for_writing(what.to);
  servers.start_push_pull({what.step, static_cast<int>(what.batches), what.learning_rate},
                          worker.push_staging.read(what.from), answer, payloads);
  servers.wait();
  worker.pull_staging.unmap(what.to);
  if (worker.embeddings != nullptr) worker.embeddings->finish();
  worker.traffic.bytes(Sent::servers) += servers.sent_bytes() - sent_before;
  return outcome_of_sums(answer, worker.server().mode == ServerMode::sync);
}

bool stops_after(const ServedWorker& worker, MetricSync& metrics, const StepInfo& info) {
  if (!metrics.stop_requested()) return false;
  // A worker that is too far ahead of this one must get its answer, or it would not learn of the stop.
  worker.watchdog.beat("waiting to agree on a stop", info.step);
  worker.servers.connection().start_pause(info.step);
  worker.servers.connection().wait();
  return metrics.stops_after(info, worker.watchdog);
}

Pace independent_pace(const ServerConfig& server, std::int64_t push_every, std::int64_t since_push) {
  return {.independent = true,
          .meets = false,
          .may_synchronise = since_push + 1 == push_every,
          .max_steps_apart =
              server.max_staleness == 0 ? 0 : (server.max_staleness + 2) * push_every + server.pipeline};
}

StrategyDescription describe(const ServedWorker& worker) {
  const ServerConfig& server = worker.server();
  std::string mode(word(server.mode));
  if (server.mode == ServerMode::half_async || server.mode == ServerMode::geo)
    mode += cat(", a push every ", server.push_every, " steps");
  if (server.mode != ServerMode::sync && server.max_staleness > 0)
    mode += cat(", at most ", server.max_staleness, " pushes ahead");
  if (server.pipeline > 0) mode += ", pipeline 1: a step computes without the update of the step before";
  StrategyDescription text{.transport = "parameter-server",
                           .lines = {cat("strategy     parameter-server, ", mode)}};
  const mpi::RoleTable& roles = worker.servers.roles().table();
  for (const std::string& line : mpi::lines_of(roles)) text.lines.push_back(cat("  ", line));
  for (const std::string& line : worker.servers.placement_lines()) text.lines.push_back(cat("  ", line));
  if (worker.embeddings != nullptr && worker.embeddings->local() != nullptr)
    text.lines.push_back(cat("  rows: ", describe_local_rows(worker.config, worker.embeddings->slots())));
  const std::size_t apart = mpi::pairs_apart(roles).size();
  if (worker.config.roles.kind.value_or(RolesKind::symmetric) == RolesKind::symmetric && apart > 0)
    text.lines.push_back(cat("  ", apart,
                             " of the pairs of a server and a worker lie on two hosts: ranks that are "
                             "numbered host by host (mpirun --map-by core) keep them together"));
  return text;
}

StepOutcome meet(const ServedWorker& worker, MetricSync& metrics, std::int64_t steps,
                 const StepOutcome& own) {
  worker.watchdog.beat("waiting for the other workers", steps - 1);
  metrics.contribute(own);
  return metrics.sync(steps);
}

void pull_alike(const ServedWorker& worker, std::int64_t steps, DeviceSpan<float> pulled) {
  worker.watchdog.beat("pull from the servers", steps - 1);
  mpi::PushPullWorker& servers = worker.servers.connection();
  servers.start_pull(steps - 1, worker.pull_staging.map_for_writing(pulled));
  servers.wait();
  worker.pull_staging.unmap(pulled);
  worker.workers.barrier(steps - 1);
}

}  // namespace flotilla
