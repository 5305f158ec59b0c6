// SPDX-License-Identifier: Apache-2.0
#include "src/train/assembly.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/all_reduce/nccl/nccl_all_reduce.hpp"
#include "src/data/assign_shards.hpp"
#include "src/data/mixup.hpp"
#include "src/job/same_data.hpp"
#include "src/parameter_server/rows/row_rule.hpp"
#include "src/parameter_server/worker/geo.hpp"
#include "src/parameter_server/worker/parameter_server.hpp"
#include "src/strategy/local_sgd/local_sgd.hpp"
#include "src/strategy/sync_all_reduce.hpp"

namespace flotilla {

namespace {

std::string divisors_of(std::int64_t number) {
  std::string text;
  for (std::int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) text += cat(text.empty() ? "" : ", ", divisor);
  return text;
}

/// Collective. For synchronised batch norm over the workers of this one's group; null if each is alone.
std::unique_ptr<CommunicatorExchange> make_exchange(const ModelConfig& model,
                                                    const mpi::Communicator& world) {
  if (model.kind != "resnet" || model.batch_norm != "synchronised") return nullptr;
  const std::int64_t group = model.batch_norm_group == 0 ? world.size() : model.batch_norm_group;
  throw_alike([&] {
    if (world.size() % group != 0)
      throw UserError(cat("model.batch_norm_group = ", group, " does not divide the ", world.size(),
                          world.size() == 1 ? " worker" : " workers",
                          "; groups that do: ", divisors_of(world.size()), "; 0: all of them together"));
  });
  if (group == 1) return nullptr;
  return std::make_unique<CommunicatorExchange>(world.split(static_cast<int>(world.rank() / group)));
}

/// Collective. The arenas of all workers are added up as they lie: each value must lie at the same place.
void check_one_order(const mpi::Communicator& world, const TensorSet& parameters) {
  if (world.size() == 1) return;
  const auto mine = static_cast<std::int64_t>(parameters.order());
  const std::vector<std::int64_t> orders = world.all_gather(std::span(&mine, 1));
  throw_alike([&] {
    const auto other = std::ranges::find_if(orders, [&](std::int64_t order) { return order != orders[0]; });
    if (other == orders.end()) return;
    throw UserError(cat("rank ", other - orders.begin(),
                        " keeps weights in another order than rank 0, as oneDNN does on another kind of "
                        "processor: run on hosts of one kind, or set ONEDNN_MAX_CPU_ISA to what all have"));
  });
}

}  // namespace

std::vector<mpi::Place> places_of_workers(const mpi::Communicator& workers, const ServerLink* servers) {
  if (servers == nullptr) return mpi::find_topology(workers);
  const mpi::RoleTable& table = servers->roles().table();
  std::vector<mpi::Place> places;
  for (const int rank : table.ranks(mpi::Role::worker))
    places.push_back(servers->places()[static_cast<std::size_t>(rank)]);
  return places;
}

std::unique_ptr<Dataset> open_validation_data(const Config& config, std::int64_t ranks_on_host) {
  if (!config.data.validation.given) return nullptr;
  return open_dataset(config.data, config.data.validation, config.model.classes,
                      static_cast<std::uint64_t>(config.run.seed) + 1,
                      {.training = false, .ranks_on_host = ranks_on_host});
}

Sharding make_sharding(const Config& config, std::int64_t samples, int workers) {
  const TrainConfig& train = config.train;
  std::int64_t batch = train.batch_size;
  std::int64_t micro_steps = train.accumulate_steps;
  if (config.run.reproducible) {
    micro_steps = shards_per_worker(config.run.virtual_shards, workers);
    batch = train.global_batch_size / config.run.virtual_shards;
  } else if (batch == 0) {
    const std::int64_t parts = workers * train.accumulate_steps;
    if (train.global_batch_size % parts != 0)
      throw UserError(cat(
          "train.global_batch_size = ", train.global_batch_size, " cannot be divided by ", workers,
          workers == 1 ? " worker" : " workers",
          train.accumulate_steps > 1 ? cat(" × ", train.accumulate_steps, " micro-steps") : "",
          "; worker counts that do: ",
          divisors_of(train.global_batch_size / std::gcd(train.global_batch_size, train.accumulate_steps))));
    batch = train.global_batch_size / parts;
  }
  const Sharding sharding{.samples = samples,
                          .workers = workers,
                          .batch = batch,
                          .micro_steps = micro_steps,
                          .drop_last = config.data.last_batch == "drop",
                          .in_order = config.data.order == "file"};
  check_sharding(sharding);
  if (train.mixup > 0.0) check_pairs(sharding, train.global_batch_size);
  return sharding;
}

Assembly::Assembly(const Config& deck, const mpi::Communicator& all_ranks, FailureHandler& failure,
                   mpi::Watchdog& watched_by, const std::map<std::string, std::string>& saved_choices,
                   std::span<trace::Sink* const> communication_sinks, ServerLink* parameter_servers)
    : config(deck),
      world(all_ranks),
      servers(parameter_servers),
      watchdog(&watched_by),
      places(places_of_workers(all_ranks, parameter_servers)),
      gpus(find_gpus(deck.device, all_ranks, places)),
      host(all_ranks.split_by_host()),
      loss_scale(make_loss_scale(deck.device)) {
  const mpi::Place& place = places[static_cast<std::size_t>(world.rank())];
  AllReducePlan plan;
  AllReducePlan averaging_plan;
  const bool averages = config.strategy.kind != "all-reduce" && servers == nullptr;
  step_group = make_step_group(config.strategy, world, places);
  exchange = make_exchange(config.model, world);
  agree(world, places, [&] {
    mpi::Working working(*watchdog, "preparing the device");
    device = make_device(config.device, place, gpus.ordinal(world.rank()), config.run.reproducible);
    working.next("opening data.train");
    training_data = open_dataset(config.data, config.data.train, config.model.classes,
                                 static_cast<std::uint64_t>(config.run.seed),
                                 {.training = true, .ranks_on_host = host->size()});
    working.next("opening data.validation");
    validation_data = open_validation_data(config, host->size());
    working.next("making the network");
    if (validation_data && !(validation_data->sample_shape() == training_data->sample_shape()))
      throw UserError(cat("the samples of data.validation are ", validation_data->sample_shape().text(), " (",
                          validation_data->description(), "), those of data.train ",
                          training_data->sample_shape().text(), " (", training_data->description(),
                          "); give two sets of one shape"));
    sharding = assign_shards(make_sharding(config, training_data->size(), world.size()), *training_data,
                             config.data.deal);
    straggler.emplace(config.run.emulate_straggler, world.rank(), world.size());
    network = make_network(*device, config,
                           {.sample = training_data->sample_shape(),
                            .slots = training_data->slots(),
                            .batch = sharding.batch,
                            .accumulate = sharding.micro_steps > 1 && !config.run.reproducible,
                            .exchange = exchange.get()});
    const std::int64_t validation_batch = config.validation.batch_size;
    if (validation_data && validation_batch > 0 && validation_batch != sharding.batch)
      validation_network = make_network(*device, config,
                                        {.sample = training_data->sample_shape(),
                                         .slots = training_data->slots(),
                                         .batch = validation_batch,
                                         .purpose = Purpose::inference});
    // The library may order weights by the batch as well; both read one arena.
    if (validation_network && validation_network->parameters().order() != network->parameters().order())
      validation_network.reset();
    buckets = cut_buckets(network->layout(), header_floats + network->statistics().layout().size(),
                          static_cast<std::int64_t>(config.strategy.bucket_mb * 1024 * 1024),
                          static_cast<std::int64_t>(config.strategy.last_bucket_mb * 1024 * 1024));
    const auto saved = [&](const char* choice) {
      const auto found = saved_choices.find(choice);
      return found == saved_choices.end() ? std::string() : found->second;
    };
    if (servers == nullptr)
      plan = plan_all_reduce(
          step_group ? step_group->strategy : config.strategy, step_group ? step_group->places : places,
          device->shares_host_memory(), saved("strategy.all_reduce"), buckets.size(),
          config.run.reproducible ? mpi::SumOrder::tree : mpi::SumOrder::any, no_nccl(gpus, mpi::has_nccl()));
    if (averages)
      averaging_plan =
          plan_all_reduce(config.strategy, places, device->shares_host_memory(), saved("strategy.averaging"),
                          1, mpi::SumOrder::any, no_nccl(gpus, mpi::has_nccl()));
    if (servers == nullptr || config.server.mode == "geo" || world.is_root())
      optimizer = make_optimizer(config.optimizer, network->layout(), *device);
    validation_sums = device->allocate(ArenaLayout::alignment);
  });
  check_one_order(world, network->parameters());
  check_same_data(world, places, training_data->size(), "data.train");
  if (validation_data) check_same_data(world, places, validation_data->size(), "data.validation");

  if (servers == nullptr) {
    watchdog->beat("laying out memory and measuring all-reduces", -1);
    lay_out(plan, averaging_plan);
  } else {
    lay_out_served();
  }
  bind(*network, model);
  if (validation_network) bind(*validation_network, model);
  const auto seed = static_cast<std::uint64_t>(config.run.seed);
  {
    const mpi::Working working(*watchdog, "setting the first weights");
    network->parameters().initialise(*device, seed, model.parameters);
    network->statistics().initialise(*device, seed, model.statistics);
  }
  if (servers != nullptr)
    servers->open({.layout = network->layout(),
                   .leading = header_floats + static_cast<std::int64_t>(model.statistics.size()),
                   .micro_steps = sharding.micro_steps,
                   .workers = world.size()});
  missing.emplace(*watchdog, [this] {
    if (servers != nullptr) return servers->missing_ranks();
    std::vector<int> ranks = averaging.missing_ranks();
    if (!step_group)
      for (const int rank : reduction.missing_ranks()) ranks.push_back(rank);
    return ranks;
  });
  failures.emplace(*watchdog, [this] {
    const std::string wrong = reduction.failure();
    return wrong.empty() ? averaging.failure() : wrong;
  });
  if (exchange) exchange->watch(*watchdog);
  std::vector<mpi::Collectives*> lanes;
  for (const auto& lane : reduction.lanes) lanes.push_back(lane.get());
  if (servers == nullptr && (step_group ? step_group->workers : world).size() > 1 && buckets.size() > 1 &&
      config.strategy.overlap)
    communication = std::make_unique<mpi::CommunicationLanes>(
        lanes, buckets.size(), [&failure] { failure.end_job_for_current_exception(); }, communication_sinks);
  if (config.model.kind == "ctr-dnn") embeddings = make_embeddings();
  strategy = make_strategy();
}

void Assembly::bind(Network& bound, const Model& with) const {
  const bool trains = &bound == network.get();
  bound.bind({.parameters = with.parameters,
              .gradients = trains ? parameter_gradients() : DeviceSpan<float>{},
              .statistics = with.statistics,
              .step_statistics =
                  trains ? gradients.subspan(header_floats, with.statistics.size()) : DeviceSpan<float>{}});
}

void Assembly::evaluate_with(const Model& evaluated) {
  bind(evaluator(), evaluated);
}

void Assembly::train_with(const Model& trained) {
  bind(*network, trained);
}

/// Only where the overflow check would be all that makes the host wait for a step.
std::unique_ptr<OverflowGuard> Assembly::make_overflow_guard() const {
  if (!loss_scale.enabled() || config.strategy.kind != "all-reduce" ||
      config.train.gradient_clip_norm > 0.0 || needs_norms(config.optimizer)) {
    return nullptr;
  }
  return device->overflow_guard({.rule = loss_scale.rule(),
                                 .loss_divisor = loss_divisor(),
                                 .beta1 = static_cast<float>(config.optimizer.beta1),
                                 .beta2 = static_cast<float>(config.optimizer.beta2)});
}

float Assembly::loss_divisor() const {
  const bool averages = config.train.accumulate == "average" && !config.run.reproducible;
  return static_cast<float>(sharding.batch * (averages ? sharding.micro_steps : 1));
}

DeviceScalar<float> Assembly::backward_scale() const {
  return overflow_guard ? overflow_guard->backward_scale()
                        : DeviceScalar<float>(loss_scale.scale() / loss_divisor());
}

std::unique_ptr<Strategy> Assembly::make_strategy() {
  if (servers != nullptr) return make_served_strategy();
  overflow_guard = make_overflow_guard();
  auto steps = std::make_unique<SyncAllReduce>(
      SyncAllReduce::Parts{.device = *device,
                           .workers = step_group ? step_group->workers : world,
                           .collectives = reduction.first(),
                           .exact = reduction.exact.get(),
                           .lanes = communication.get(),
                           .watchdog = *watchdog,
                           .optimizer = *optimizer,
                           .loss_scale = loss_scale,
                           .model = model,
                           .gradients = gradients,
                           .buckets = buckets,
                           .micro_steps = sharding.micro_steps,
                           .shards = shard_sums.get(),
                           .clip_norm = config.train.gradient_clip_norm,
                           .overflow_guard = overflow_guard.get()});
  if (config.strategy.kind == "all-reduce") return steps;
  return std::make_unique<LocalSgd>(LocalSgd::Parts{
      .device = *device,
      .workers = world,
      .steps = std::move(steps),
      .averaging = averaging,
      .watchdog = *watchdog,
      .optimizer = *optimizer,
      .model = model,
      .consensus = consensus,
      .period = make_period(config.strategy, sharding.steps_per_epoch(), config.schedule.warmup_epochs),
      .config = config.strategy,
      .speaks = !step_group || step_group->workers.is_root()});
}

std::unique_ptr<Strategy> Assembly::make_served_strategy() {
  const ServedWorker worker{.device = *device,
                            .servers = *servers,
                            .workers = world,
                            .watchdog = *watchdog,
                            .config = config,
                            .loss_scale = loss_scale,
                            .model = model,
                            .values = served_values,
                            .gradients = gradients,
                            .push_staging = *push_staging,
                            .pull_staging = *pull_staging,
                            .micro_steps = sharding.micro_steps,
                            .embeddings = embeddings.get()};
  if (config.server.mode == "geo") return std::make_unique<Geo>(worker, *optimizer);
  return std::make_unique<ParameterServer>(worker, optimizer.get());
}

std::unique_ptr<Embeddings> Assembly::make_embeddings() {
  const bool trains = config.server.mode == "geo";
  return std::make_unique<Embeddings>(
      Embeddings::Parts{.servers = *servers,
                        .watchdog = *watchdog,
                        .training = bags_of(config.model, *training_data, network->batch()),
                        .validation = bags_of(config.model, *training_data, evaluator().batch()),
                        .per_slot = config.model.embeddings == "per-slot",
                        .wire = mpi::wire_of(config.server.wire),
                        .rule = trains ? std::optional(row_rule(config.optimizer)) : std::nullopt});
}

StrategyTimes Assembly::times() const {
  StrategyTimes times = strategy->times();
  if (exchange) times.exposed_comm_ns += exchange->waited_ns();
  if (embeddings) {
    times.exposed_comm_ns += embeddings->waited_ns();
    times.sent_bytes += embeddings->sent_bytes();
  }
  return times;
}

std::int64_t planned_steps(const TrainConfig& train, const Sharding& sharding) {
  const std::int64_t by_epochs = train.epochs * sharding.steps_per_epoch();
  if (train.epochs == 0) return train.steps;
  return train.steps == 0 ? by_epochs : std::min(by_epochs, train.steps);
}

Progress progress_of(const Config& config, const Sharding& sharding, Position position) {
  const auto samples = static_cast<double>(sharding.samples);
  // With epochs, train.steps only cuts the run short: its learning rates stay those of the whole plan, so
  // that a run that was stopped by it can go on.
  const double total_epochs = config.train.epochs > 0 ? static_cast<double>(config.train.epochs)
                                                      : static_cast<double>(config.train.steps) /
                                                            static_cast<double>(sharding.steps_per_epoch());
  return {.epochs = static_cast<double>(position.epoch) + static_cast<double>(position.offset) / samples,
          .total_epochs = total_epochs};
}

}  // namespace flotilla
