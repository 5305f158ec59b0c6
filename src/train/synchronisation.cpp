// SPDX-License-Identifier: Apache-2.0
#include "src/train/synchronisation.hpp"

#include <cstdint>
#include <string>
#include <utility>

#include "mpi/all_reduce/nccl/nccl_all_reduce.hpp"
#include "src/config/optimizers.hpp"
#include "src/job/devices.hpp"
#include "src/optim/parameter_patterns.hpp"
#include "src/parameter_server/worker/served_worker.hpp"
#include "src/strategy/local_sgd/local_sgd.hpp"
#include "src/strategy/reduce/power_sgd.hpp"
#include "src/strategy/sync_all_reduce.hpp"

namespace flotilla {

Synchronisation::Synchronisation(const Machine& machine, const RunData& data, RunModel& trained,
                                 FailureHandler& failure,
                                 const std::map<std::string, std::string>& saved_choices,
                                 std::span<trace::Sink* const> communication_sinks)
    : model(trained) {
  const Config& config = model.config;
  buckets =
      cut_buckets(model.network->layout(), header_floats + model.network->statistics().layout().size(),
                  bucket_bytes(config.reduction.bucket_mb), bucket_bytes(config.reduction.last_bucket_mb));
  choices[chosen_workers] = std::to_string(machine.workers.size());
  if (config.device.precision == DevicePrecision::automatic)
    choices["device.precision"] = name(machine.precision);
  if (machine.servers == nullptr) {
    connect_workers(saved_choices);
  } else {
    connect_servers(data);
  }
  watch();
  if (config.model.has_embeddings()) embeddings = make_embeddings(data);
  make_step(communication_sinks, failure);
  strategy = machine.servers == nullptr ? make_strategy(failure)
                                        : make_served_strategy(communication_sinks, failure);
}

/// Makes the parts of every step, whatever the strategy: sums of gradients, and the update by them.
void Synchronisation::make_step(std::span<trace::Sink* const> communication_sinks, FailureHandler& failure) {
  const Machine& machine = model.machine;
  const Config& config = model.config;
  const bool served = machine.servers != nullptr;
  std::vector<mpi::Collectives*> lanes;
  for (const auto& lane : reduction.lanes) lanes.push_back(lane.get());
  const mpi::Communicator& together = machine.step_group ? machine.step_group->workers : machine.workers;
  const bool overlaps = config.all_reduce() == nullptr || config.all_reduce()->overlap;
  if (!served && together.size() > 1 && buckets.size() > 1 && overlaps)
    communication = std::make_unique<mpi::CommunicationLanes>(
        lanes, buckets.size(), [&failure] { failure.end_job_for_current_exception(); }, communication_sinks);
  sums = std::make_unique<GradientSums>(
      GradientSums::Parts{.device = *machine.device,
                          .watchdog = machine.watchdog,
                          .model = model.weights,
                          .gradients = model.gradients(),
                          .traffic = traffic,
                          .reduction = served ? nullptr : &reduction,
                          .lanes = communication.get(),
                          .buckets = buckets,
                          .shards = served ? nullptr : model.shard_sums.get()});
  if (served && config.server()->mode != ServerMode::geo) return;
  ModelUpdate::Parts parts{.device = *machine.device,
                           .optimizer = *model.optimizer,
                           .loss_scale = model.loss_scale,
                           .model = model.weights,
                           .gradients = model.gradients(),
                           .micro_steps = model.shard_sums ? 1 : model.sharding.micro_steps,
                           .weighted = !config.train.class_weights.empty(),
                           .clip_norm = config.train.gradient_clip_norm};
  if (!served) {
    const ArenaLayout& statistics = model.network->statistics().layout();
    parts.fixed_statistics.emplace(*machine.device, statistics, fixed_slices(config.model, statistics));
    parts.overflow_guard = model.overflow_guard.get();
    parts.halves = model.updated_halves();
    parts.average_decay = config.train.average_decay;
  }
  update = std::make_unique<ModelUpdate>(std::move(parts));
}

/// Collective. Plans the all-reduces, of gradients and with local SGD of models, and makes them.
void Synchronisation::connect_workers(const std::map<std::string, std::string>& saved_choices) {
  const Machine& machine = model.machine;
  const Config& config = model.config;
  const std::optional<StepGroup>& step_group = machine.step_group;
  const bool averages = config.local_sgd() != nullptr;
  AllReducePlan plan;
  AllReducePlan averaging_plan;
  agree(machine.workers, machine.places, [&] {
    const auto saved = [&](const char* choice) {
      const auto found = saved_choices.find(choice);
      return found == saved_choices.end() ? std::string() : found->second;
    };
    const bool shares_memory = machine.device->info().shares_host_memory;
    const std::string without_nccl = no_nccl(machine.gpus, mpi::has_nccl());
    ReductionConfig gradients = step_group ? step_group->reduction : config.reduction;
    // A scaled wire is for the averaged differences then: errors of both would need an array more.
    if (averages && is_scaled(gradients.wire)) gradients.wire = Wire::float32;
    plan = plan_all_reduce(gradients,
                           {.places = step_group ? step_group->places : machine.places,
                            .shares_memory = shares_memory,
                            .buckets = buckets.size(),
                            .saved = saved("strategy.all_reduce"),
                            .order = config.run.reproducible ? mpi::SumOrder::tree : mpi::SumOrder::any,
                            .no_nccl = without_nccl,
                            .communicators = communicators(config),
                            .seed = config.run.seed});
    if (averages)
      averaging_plan = plan_all_reduce(config.reduction, {.places = machine.places,
                                                          .shares_memory = shares_memory,
                                                          .saved = saved("strategy.averaging"),
                                                          .no_nccl = without_nccl,
                                                          .seed = config.run.seed});
  });
  machine.watchdog.beat("laying out memory and measuring all-reduces", -1);
  model.allocate(plan, averaging_plan);
  std::vector<DeviceSpan<float>> spans;
  for (const Bucket& bucket : buckets) spans.push_back(span_of(model.gradients(), bucket));
  reduction =
      make_reduction(plan, step_group ? step_group->workers : machine.workers,
                     step_group ? step_group->host : machine.host, *machine.device, model.summed, spans);
  if (machine.exchange && reduction.first().queues()) machine.exchange->use_nccl(reduction.lanes);
  if (reduction.exact) buckets.back().begin = static_cast<std::int64_t>(leading_floats(model.weights));
  choices["strategy.all_reduce"] = reduction.kind->word;
  if (const AllReduceConfig* const deck = config.all_reduce();
      deck != nullptr && deck->compression != Compression::none)
    compress(*deck, spans);
  if (averages) {
    const std::size_t count = model.weights.parameters.size() + model.weights.statistics.size();
    const DeviceSpan<float> all = model.models.values().subspan(0, count);
    averaging = make_reduction(averaging_plan, machine.workers, machine.host, *machine.device, model.models,
                               std::span(&all, 1));
    choices["strategy.averaging"] = averaging.kind->word;
  }
  model.initialise();
}

/// Collective. Makes what compresses gradients, over the kind of all-reduce that sums them otherwise.
void Synchronisation::compress(const AllReduceConfig& deck, std::span<const DeviceSpan<float>> spans) {
  const Machine& machine = model.machine;
  const Config& config = model.config;
  const TensorSet& tensors = model.network->parameters();
  CompressionCut cut;
  AllReducePlan plan;
  agree(machine.workers, machine.places, [&] {
    cut = cut_for_compression(tensors, deck.compression_rank);
    if (cut.products.empty())
      throw UserError(cat("strategy.compression_rank = ", deck.compression_rank,
                          " halves no matrix of this model: give a smaller one, or strategy.compression = "
                          "\"none\""));
    plan = plan_all_reduce(config.reduction, {.places = machine.places,
                                              .saved = std::string(reduction.kind->word),
                                              .no_nccl = no_nccl(machine.gpus, mpi::has_nccl())});
  });
  fit_to_shared_memory(plan, config.reduction.all_reduce == AllReduceWord::automatic,
                       cut.count(leading_floats(model.weights)), machine.workers);
  DeviceSpan<float> kept;
  if (reduction.rounds())
    kept = reduction.errors.span().subspan(leading_floats(model.weights), model.weights.parameters.size());
  reduction.compression =
      std::make_shared<PowerSgd>(PowerSgd::Parts{.device = *machine.device,
                                                 .watchdog = machine.watchdog,
                                                 .workers = machine.workers,
                                                 .tensors = tensors,
                                                 .gradients = model.gradients(),
                                                 .cut = std::move(cut),
                                                 .errors = kept,
                                                 .start = deck.compression_start,
                                                 .seed = static_cast<std::uint64_t>(config.run.seed)},
                                 plan, machine.host);
  if (machine.workers.size() > 1) reduction.compression->measure(reduction.first(), spans);
}

/// Collective. Tells the servers what they hold.
void Synchronisation::connect_servers(const RunData& data) {
  const Machine& machine = model.machine;
  AllReducePlan none;
  model.allocate(none, none);
  push_staging.emplace(*machine.device, model.gradients().size());
  pull_staging.emplace(*machine.device, model.models.values().size());
  model.initialise();
  machine.servers->open({.layout = model.network->layout(),
                         .leading = static_cast<std::int64_t>(leading_floats(model.weights)),
                         .micro_steps = data.sharding.micro_steps,
                         .workers = machine.workers.size()});
}

/// The watchdog names the ranks that are missing in an all-reduce, and ends the job where a library fails.
void Synchronisation::watch() {
  const Machine& machine = model.machine;
  missing.emplace(machine.watchdog, [this, &machine] {
    if (machine.servers != nullptr) return machine.servers->missing_ranks();
    std::vector<int> ranks = averaging.missing_ranks();
    if (!machine.step_group)
      for (const int rank : reduction.missing_ranks()) ranks.push_back(rank);
    return ranks;
  });
  failures.emplace(machine.watchdog, [this, &machine] {
    std::string wrong = reduction.failure();
    if (wrong.empty()) wrong = averaging.failure();
    return wrong.empty() && machine.exchange ? machine.exchange->failure() : wrong;
  });
}

std::vector<StateArray> Synchronisation::wire_errors() {
  const std::size_t parameters = model.weights.parameters.size();
  if (averaging.rounds()) return averaging.error_arrays(0, parameters);
  return reduction.error_arrays(leading_floats(model.weights), parameters);
}

std::size_t Synchronisation::rows_ahead() const {
  if (!embeddings) return 0;
  const ServerConfig& server = *model.config.server();
  const bool exchanges = server.mode == ServerMode::sync || server.mode == ServerMode::async;
  return exchanges ? 1 + static_cast<std::size_t>(server.pipeline) : 0;
}

std::unique_ptr<Strategy> Synchronisation::make_strategy(FailureHandler& failure) {
  const Machine& machine = model.machine;
  const Config& config = model.config;
  const std::optional<StepGroup>& step_group = machine.step_group;
  const LocalSgdConfig* local = config.local_sgd();
  if (local == nullptr)
    return std::make_unique<SyncAllReduce>(SyncAllReduce::Parts{.device = *machine.device,
                                                                .workers = machine.workers,
                                                                .reduction = reduction,
                                                                .sums = *sums,
                                                                .update = *update,
                                                                .traffic = traffic,
                                                                .model = model.weights});
  const Network& network = *model.network;
  AveragingRoom room{.consensus = model.consensus, .averages = model.averages, .fragments = {}};
  agree(machine.workers, machine.places,
        [&] { room.fragments = cut_fragments(network.layout(), local->streaming.fragments); });
  if (local->streaming.travels() && machine.workers.size() > 1) {
    std::vector<mpi::Collectives*> lanes = {&averaging.first()};
    if (averaging.exact) lanes.push_back(averaging.exact.get());
    room.lanes = std::make_unique<mpi::CommunicationLanes>(
        lanes, lanes.size(), [&failure] { failure.end_job_for_current_exception(); });
  }
  return std::make_unique<LocalSgd>(LocalSgd::Parts{
      .device = *machine.device,
      .workers = machine.workers,
      .step_workers = step_group ? step_group->workers : machine.workers,
      .sums = *sums,
      .update = *update,
      .averaging = averaging,
      .watchdog = machine.watchdog,
      .traffic = traffic,
      .model = model.weights,
      .room = std::move(room),
      .period = make_period(*local, model.sharding.steps_per_epoch(), config.schedule.warmup_epochs),
      .config = *local,
      .frozen = {*machine.device, network.layout(), frozen_slices(config.optimizer, network.layout())},
      .groups = step_group ? std::span<const int>(step_group->groups) : std::span<const int>(),
      .speaks = !step_group || step_group->workers.is_root()});
}

std::unique_ptr<Strategy> Synchronisation::make_served_strategy(
    std::span<trace::Sink* const> communication_sinks, FailureHandler& failure) {
  const Machine& machine = model.machine;
  const ServedWorker worker{.device = *machine.device,
                            .servers = *machine.servers,
                            .workers = machine.workers,
                            .watchdog = machine.watchdog,
                            .config = model.config,
                            .loss_scale = model.loss_scale,
                            .traffic = traffic,
                            .model = model.weights,
                            .values = model.models.values(),
                            .gradients = model.gradients(),
                            .push_staging = *push_staging,
                            .pull_staging = *pull_staging,
                            .micro_steps = model.sharding.micro_steps,
                            .embeddings = embeddings.get()};
  if (model.config.server()->mode == ServerMode::geo) return make_geo(worker, *model.optimizer);
  return make_parameter_server(worker, model.optimizer.get(),
                               {.on_failure = [&failure] { failure.end_job_for_current_exception(); },
                                .sink = communication_sinks.empty() ? nullptr : communication_sinks[0]});
}

std::unique_ptr<Embeddings> Synchronisation::make_embeddings(const RunData& data) {
  const Machine& machine = model.machine;
  const Config& config = model.config;
  const bool trains = config.server()->mode == ServerMode::geo;
  return std::make_unique<Embeddings>(
      Embeddings::Parts{.servers = *machine.servers,
                        .watchdog = machine.watchdog,
                        .training = bags_of(config.model, *data.training, model.network->batch()),
                        .validation = bags_of(config.model, *data.training, model.evaluator().batch()),
                        .per_slot = config.model.embeddings == EmbeddingTables::per_slot,
                        .wire = mpi::wire_of(config.server()->wire),
                        .rule = trains ? std::optional(row_rule(config.optimizer)) : std::nullopt,
                        .ahead = 1 + static_cast<std::size_t>(config.server()->pipeline)});
}

std::int64_t Synchronisation::waited_ns() const {
  const Machine& machine = model.machine;
  return (machine.exchange ? machine.exchange->waited_ns() : 0) + (embeddings ? embeddings->waited_ns() : 0);
}

std::int64_t Synchronisation::sent_bytes() const {
  return traffic.sent_bytes() + (embeddings ? embeddings->sent_bytes() : 0);
}

std::map<std::string, std::int64_t> Synchronisation::sent() const {
  Traffic all = traffic;
  all.bytes(Sent::servers) += sent_bytes() - traffic.sent_bytes();
  std::map<std::string, std::int64_t> parts;
  for (std::size_t i = 0; i < all.sent.size(); ++i)
    if (all.sent[i] > 0) parts[sent_words[i]] = all.sent[i];
  return parts;
}

}  // namespace flotilla
