// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/host_staging.hpp"
#include "kernels/trace.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/config.hpp"
#include "src/optim/loss_scale.hpp"
#include "src/parameter_server/worker/embeddings.hpp"
#include "src/parameter_server/worker/server_link.hpp"
#include "src/strategy/metric_sync.hpp"
#include "src/strategy/strategy.hpp"

namespace flotilla {

/// The parts that every strategy of a worker of parameter servers uses.
struct ServedWorker {
  Device& device;
  ServerLink& servers;
  const mpi::Communicator& workers;
  mpi::Watchdog& watchdog;
  const Config& config;
  LossScale& loss_scale;
  Traffic& traffic;
  Model model;                  ///< A part of `values`
  DeviceSpan<float> values;     ///< Header, statistics, parameters
  DeviceSpan<float> gradients;  ///< Header, step statistics, gradients
  HostStaging& push_staging;    ///< For values that are pushed
  HostStaging& pull_staging;    ///< For values that are pulled
  std::int64_t micro_steps = 1;
  Embeddings* embeddings = nullptr;  ///< Null: the model has none

  const ServerConfig& server() const { return *config.server(); }
};

/// The strategy of server.mode = "geo". @param optimizer takes the worker's own steps
std::unique_ptr<Strategy> make_geo(const ServedWorker& worker, Optimizer& optimizer);

/// A thread in addition to the one that computes.
struct ServedThread {
  std::function<void()> on_failure;  ///< Called on it with the current exception; must end the job
  trace::Sink* sink = nullptr;       ///< Null: nothing is recorded
};

/// The strategy of the other modes, in which the servers run the optimizer.
/// @param slots optimizer that receives the servers' slots on worker 0, to save them; null on other workers
/// @param thread for server.pipeline = 1
std::unique_ptr<Strategy> make_parameter_server(const ServedWorker& worker, Optimizer* slots,
                                                const ServedThread& thread);

// The following are common to both.

/// The first part of start() in these strategies: sends worker 0's values to the workers and to the servers.
void fill_servers(const ServedWorker& worker, Optimizer* slots, std::int64_t optimizer_steps);

/// Whether the step's gradients are finite, those of rows too; true where overflow is not checked.
bool gradients_are_usable(const ServedWorker& worker);

/// The outcome in the sums of the header of `array`.
StepOutcome outcome_of_sums(std::span<const float> array, bool all_workers);

/// Notes what servers said with the answer to a push, where they do not wait for all workers.
inline void count_staleness(Traffic& traffic, const StepOutcome& answer) {
  ++traffic.stale_pushes;
  traffic.staleness += answer.staleness;
}

struct PushAndPull {
  std::int64_t step = 0;
  std::int64_t batches = 0;  ///< Batches in the push; 0: the servers must not apply it
  double learning_rate = 0.0;
  DeviceSpan<float> from{};
  DeviceSpan<float> to{};
};

/// Pushes, pulls and waits, with the payloads of the embeddings. @returns what the servers say in their
/// header
StepOutcome push_pull(const ServedWorker& worker, const PushAndPull& what);

/// Whether a worker wants to stop, and all have agreed to stop after this step.
bool stops_after(const ServedWorker& worker, MetricSync& metrics, const StepInfo& info);

/// The pace of workers that do not wait for each other in every step; they synchronise with a push without
/// changing training. A worker waits with a push that would be more than max_staleness pushes ahead of the
/// slowest worker, which may be about to push. @param since_push steps since this worker's last push
Pace independent_pace(const ServerConfig& server, std::int64_t push_every, std::int64_t since_push);

/// Describes the servers, the workers and the mode of the updates.
StrategyDescription describe(const ServedWorker& worker);

/// Collective over the workers, when this one has pushed everything and `steps` are done.
StepOutcome meet(const ServedWorker& worker, MetricSync& metrics, std::int64_t steps, const StepOutcome& own);
/// Collective over the workers, after meet(). Leaves in `pulled` what the servers have, equal on every
/// worker: none pushes again before all have pulled.
void pull_alike(const ServedWorker& worker, std::int64_t steps, DeviceSpan<float> pulled);

}  // namespace flotilla
