// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/host_staging.hpp"
#include "models/network.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/communication_lanes.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/config/config.hpp"
#include "src/data/dataset.hpp"
#include "src/data/loader.hpp"
#include "src/data/sampler.hpp"
#include "src/job/devices.hpp"
#include "src/job/failure.hpp"
#include "src/optim/loss_scale.hpp"
#include "src/optim/optimizer.hpp"
#include "src/optim/schedule.hpp"
#include "src/parameter_server/worker/embeddings.hpp"
#include "src/parameter_server/worker/server_link.hpp"
#include "src/strategy/buckets.hpp"
#include "src/strategy/communicator_exchange.hpp"
#include "src/strategy/reduce/all_reduce_plan.hpp"
#include "src/strategy/reduce/reduced_array.hpp"
#include "src/strategy/reproducible.hpp"
#include "src/strategy/step_group.hpp"
#include "src/strategy/strategy.hpp"
#include "src/train/model_kinds.hpp"
#include "src/train/monitor/emulated_straggler.hpp"

namespace flotilla {

/// Collective over the workers. Where they run, with their ranks in the job; servers beside them share cores.
std::vector<mpi::Place> places_of_workers(const mpi::Communicator& workers, const ServerLink* servers);

/// data.validation of the deck; null if it names none. Another seed than training's: random data must differ.
/// @param ranks_on_host that cache it if the deck asks for that; 0: it is read once
std::unique_ptr<Dataset> open_validation_data(const Config& config, std::int64_t ranks_on_host = 0);

/// Micro-batches and workers for a deck. @throws UserError if the workers do not divide
/// train.global_batch_size, naming worker counts that do, or if there are fewer samples than a step takes.
Sharding make_sharding(const Config& config, std::int64_t samples, int workers);

/// What a run computes with, in the order in which it is made; destroyed in reverse.
struct Assembly {
  /// Collective over the workers. Mistakes of the user are agreed on: every rank throws the same error.
  /// `communication_sinks`: one per communicator; empty: no trace. `servers`: null without parameter servers
  Assembly(const Config& config, const mpi::Communicator& world, FailureHandler& failure,
           mpi::Watchdog& watchdog, const std::map<std::string, std::string>& choices,
           std::span<trace::Sink* const> communication_sinks = {}, ServerLink* servers = nullptr);
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  const Config& config;
  const mpi::Communicator& world;  ///< The workers
  ServerLink* servers;             ///< Null: all ranks work
  mpi::Watchdog* watchdog;         ///< Of the job; never null
  std::vector<mpi::Place> places;  ///< Of the workers, whose ranks are those of the job
  mpi::GpuBinding gpus;            ///< Of the workers; empty: they compute on processors
  std::unique_ptr<Device> device;
  std::unique_ptr<Dataset> training_data;
  std::unique_ptr<Dataset> validation_data;  ///< Null: none
  Sharding sharding;
  std::optional<EmulatedStraggler> straggler;
  std::unique_ptr<CommunicatorExchange> exchange;  ///< Null: no synchronised batch norm
  std::unique_ptr<Network> network;
  std::unique_ptr<Network> validation_network;  ///< Null: the training network serves
  std::optional<mpi::Communicator> host;        ///< The ranks of this host
  std::optional<StepGroup> step_group;          ///< Empty: all workers step together
  ReducedArray models;                          ///< Holds model and consensus, or served_values
  ReducedArray summed;                          ///< Holds gradients
  Model model;
  Model consensus;                          ///< Local SGD: room for a model that is not this worker's
  DeviceSpan<float> gradients;              ///< Header, step statistics, gradients (buckets.hpp)
  DeviceSpan<float> served_values;          ///< With servers: the header, statistics, parameters
  std::optional<HostStaging> push_staging;  ///< With servers, to whom host memory goes
  std::optional<HostStaging> pull_staging;
  Storage validation_sums;
  std::unique_ptr<Optimizer>
      optimizer;         ///< Null where servers run it, but for worker 0, which saves its state
  LossScale loss_scale;  ///< This worker's
  std::unique_ptr<OverflowGuard> overflow_guard;  ///< Null: the host decides whether a step is taken
  std::unique_ptr<ShardSums> shard_sums;          ///< Null: not run.reproducible
  std::vector<Bucket> buckets;
  Reduction reduction;                                     ///< Of gradients
  Reduction averaging;                                     ///< Local SGD: of models
  std::optional<mpi::MissingRanks> missing;                ///< In the all-reduces, or of the servers
  std::optional<mpi::FailuresBeside> failures;             ///< Of a library of all-reduces
  std::unique_ptr<Embeddings> embeddings;                  ///< Null: the model has none
  std::unique_ptr<mpi::CommunicationLanes> communication;  ///< Null: one bucket
  std::unique_ptr<Strategy> strategy;
  std::map<std::string, std::string> choices;  ///< Made by measurement; stored in checkpoints

  /// What of `gradients` the optimizer reads.
  DeviceSpan<float> parameter_gradients() const {
    const std::size_t count = model.parameters.size();
    return gradients.subspan(gradients.size() - count, count);
  }
  /// Whether the rows of a step's batch come with the exchange of the step before.
  bool looks_ahead() const {
    return embeddings && (config.server.mode == "sync" || config.server.mode == "async");
  }
  std::int64_t shards() const { return shard_sums ? shard_sums->shards() : 1; }  ///< Of this worker
  /// What backward multiplies the sum of a batch's losses with.
  DeviceScalar<float> backward_scale() const;
  /// The strategy's, and what synchronised batch norm and rows wait for around forward and backward.
  StrategyTimes times() const;
  Network& evaluator() { return validation_network ? *validation_network : *network; }
  /// From now on evaluator() computes with `evaluated`, which is `model` again before the next step.
  void evaluate_with(const Model& evaluated);
  /// The same for forward passes of training.
  void train_with(const Model& trained);

 private:
  void bind(Network& bound, const Model& with) const;
  std::unique_ptr<OverflowGuard> make_overflow_guard() const;
  float loss_divisor() const;
  std::unique_ptr<Strategy> make_strategy();
  std::unique_ptr<Strategy> make_served_strategy();
  std::unique_ptr<Embeddings> make_embeddings();
  void lay_out(AllReducePlan plan, AllReducePlan averaging_plan);
  void lay_out_served();
};

/// A Schedule's position after `position` of an epoch of `samples`.
Progress progress_of(const Config& config, const Sharding& sharding, Position position);

/// Optimizer steps of the whole run: train.epochs or train.steps, whichever ends first.
std::int64_t planned_steps(const TrainConfig& train, const Sharding& sharding);

}  // namespace flotilla
