// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/host_staging.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/config.hpp"
#include "src/optim/loss_scale.hpp"
#include "src/parameter_server/worker/embeddings.hpp"
#include "src/parameter_server/worker/server_link.hpp"
#include "src/strategy/metric_sync.hpp"
#include "src/strategy/strategy.hpp"

namespace flotilla {

/// What every strategy of a worker of parameter servers works with.
struct ServedWorker {
  Device& device;
  ServerLink& servers;
  const mpi::Communicator& workers;
  mpi::Watchdog& watchdog;
  const Config& config;
  LossScale& loss_scale;
  Model model;                  ///< Inside `values`
  DeviceSpan<float> values;     ///< Passengers, statistics, parameters
  DeviceSpan<float> gradients;  ///< Passengers, step statistics, gradients
  HostStaging& push_staging;    ///< For what goes to servers
  HostStaging& pull_staging;    ///< And what comes from there
  std::int64_t micro_steps = 1;
  Embeddings* embeddings = nullptr;  ///< Null: the model has none
};

/// The first part of every such start(): worker 0's values to the workers and to the servers.
void fill_servers(const ServedWorker& worker, Optimizer* slots, std::int64_t optimizer_steps);

/// Whether the step's gradients are finite, those of rows too; or nobody looks.
bool can_be_taken(const ServedWorker& worker);

/// What the sums at the start of `array` (the header) say.
StepOutcome outcome_of_sums(Device& device, DeviceSpan<float> array, bool all_workers);

struct PushAndPull {
  std::int64_t step = 0;
  std::int64_t batches = 0;  ///< In what is pushed; 0: no server is to learn anything from it
  double learning_rate = 0.0;
  DeviceSpan<float> from{};
  DeviceSpan<float> to{};
};

/// Pushes, pulls and waits; what the embeddings have for it goes along. @returns the bytes that went out
std::int64_t push_pull(const ServedWorker& worker, const PushAndPull& what);

/// Whether a worker wants to stop, and all have agreed to meet for it after this step.
bool stops_after(const ServedWorker& worker, MetricSync& metrics, const StepInfo& info);

/// Strategy::most_steps_apart: a worker waits with the push after max_staleness more than the last one's, who
/// may be about to push.
std::int64_t most_steps_apart(const ServerConfig& server, std::int64_t push_every);

/// Collective, when this worker has pushed all that it has and `steps` are done. Leaves the same in `pulled`
/// on all workers: what the servers have once all have pushed. Nobody pushes again before all have it.
StepOutcome meet(const ServedWorker& worker, MetricSync& metrics, std::int64_t steps, const StepOutcome& own,
                 DeviceSpan<float> pulled);

}  // namespace flotilla
