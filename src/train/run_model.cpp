// SPDX-License-Identifier: Apache-2.0
#include "src/train/run_model.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/machine/available_memory.hpp"
#include "mpi/core/host_lines.hpp"
#include "src/config/optimizers.hpp"
#include "src/job/failure.hpp"
#include "src/strategy/buckets.hpp"
#include "src/train/model_kinds.hpp"

namespace flotilla {

namespace {

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

/// Values of the two arrays that allocate() makes.
struct ArrayCounts {
  std::size_t held;    ///< Bytes of models
  std::size_t summed;  ///< Bytes of the arrays that a step sums
};
ArrayCounts array_counts(const Config& config, bool served, const Network& network) {
  const auto model = static_cast<std::size_t>(network.layout().size() + network.statistics().layout().size());
  const std::size_t summed = header_size + model;
  const LocalSgdConfig* const local = config.local_sgd();
  const std::size_t models = local == nullptr ? 1 : local->streaming.needs_room() ? 3 : 2;
  return {.held = served ? summed : models * model, .summed = summed};
}

/// Values of the buffers in which initialise() makes the largest parameter: in the plain order and, where the
/// library stores it in another, in that.
std::int64_t initialised_at_once(const TensorSet& parameters) {
  const std::vector<Slice>& slices = parameters.layout().slices();
  std::int64_t largest = 0;
  for (std::size_t slice = 0; slice < slices.size(); ++slice)
    largest = std::max(largest, (parameters.is_plain(slice) ? 1 : 2) * slices[slice].shape.size());
  return largest;
}

/// Collective over the workers. Compares what the flat arrays of all workers on a host take, those of the
/// model, its gradients and the optimizer's state, with what their control groups leave, before the first of
/// them is allocated. @param values of these arrays on this worker
void require_room(const Machine& machine, std::int64_t values) {
  if (!machine.device->info().shares_host_memory) return;
  const MemoryLimit limit = memory_limit();
  const std::vector<std::string> groups = machine.host.all_gather(limit.identity);
  const std::vector<std::int64_t> sizes = machine.host.all_gather(std::span<const std::int64_t>(&values, 1));
  std::int64_t all = 0;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank)
    if (groups[rank] == limit.identity) all += sizes[rank];
  agree(machine.workers, machine.places, [&] {
    require_memory(limit, all * static_cast<std::int64_t>(sizeof(float)),
                   cat("parameters, gradients and the optimizer's state of ",
                       mpi::counted(machine.host.size(), "worker"), " on this host"));
  });
}

}  // namespace

RunModel::RunModel(const Config& deck, const Machine& on, const RunData& data)
    : config(deck), machine(on), sharding(data.sharding), loss_scale(make_loss_scale(deck.device)) {
  Device& device = *machine.device;
  agree(machine.workers, machine.places, [&] {
    const mpi::CpuProgressScope working(machine.watchdog, "making the network");
    network = make_network(device, config,
                           {.sample = data.training->sample_shape(),
                            .slots = data.training->slots(),
                            .batch = sharding.batch,
                            .accumulate = sharding.micro_steps > 1 && !config.run.reproducible,
                            .exchange = machine.exchange.get()});
    const std::int64_t validation_batch = config.validation.batch_size;
    if (data.validation && validation_batch > 0 && validation_batch != sharding.batch)
      validation_network = make_network(device, config,
                                        {.sample = data.training->sample_shape(),
                                         .slots = data.training->slots(),
                                         .batch = validation_batch,
                                         .purpose = Purpose::inference});
    // The library may order weights by the batch as well; both read one arena.
    if (validation_network && validation_network->parameters().order() != network->parameters().order())
      validation_network.reset();
  });
  const bool optimizes =
      machine.servers == nullptr || config.server()->mode == ServerMode::geo || machine.workers.is_root();
  const std::size_t slots = optimizes ? rule_state_names(update_rule(config.optimizer)).size() : 0;
  const ArrayCounts counts = array_counts(config, machine.servers != nullptr, *network);
  const AllReduceConfig* const reduces = config.all_reduce();
  const bool keeps_errors = reduces != nullptr && reduces->compression != Compression::none;
  require_room(machine,
               (static_cast<std::int64_t>(slots) + (keeps_errors ? 1 : 0)) * network->layout().size() +
                   static_cast<std::int64_t>(counts.held + counts.summed) +
                   initialised_at_once(network->parameters()));
  agree(machine.workers, machine.places, [&] {
    const mpi::CpuProgressScope working(machine.watchdog, "making the optimizer");
    if (optimizes) optimizer = make_optimizer(config.optimizer, network->layout(), device);
    validation_sums = device.memory().allocate(ArenaLayout::alignment);
  });
  check_one_order(machine.workers, network->parameters());
  if (machine.servers == nullptr) overflow_guard = make_overflow_guard();
}

void RunModel::allocate(AllReducePlan& plan, AllReducePlan& averaging) {
  const LocalSgdConfig* const local = config.local_sgd();
  const auto parameter_count = static_cast<std::size_t>(network->layout().size());
  const auto statistics_count = static_cast<std::size_t>(network->statistics().layout().size());
  const std::size_t model_count = parameter_count + statistics_count;
  const bool served = machine.servers != nullptr;
  const auto [held, summed_count] = array_counts(config, served, *network);
  const bool automatic = config.reduction.all_reduce == AllReduceWord::automatic;
  const auto model_at = [&](std::size_t parameters, std::size_t statistics) -> Model {
    return {models.values().subspan(parameters, parameter_count),
            models.values().subspan(statistics, statistics_count)};
  };
  fit_to_shared_memory(averaging, automatic, held, machine.workers);
  models = ReducedArray(*machine.device, held, averaging, machine.host);
  weights = served ? model_at(summed_count - parameter_count, header_floats) : model_at(0, parameter_count);
  if (local != nullptr) consensus = model_at(model_count, model_count + parameter_count);
  if (local != nullptr && local->streaming.needs_room())
    averages = model_at(2 * model_count, 2 * model_count + parameter_count);
  fit_to_shared_memory(plan, automatic, summed_count, machine.workers);
  summed = ReducedArray(*machine.device, summed_count, plan,
                        machine.step_group ? machine.step_group->host : machine.host);
  if (config.run.reproducible)
    shard_sums = std::make_unique<ShardSums>(*machine.device, gradients(), sharding.micro_steps);
}

void RunModel::initialise() {
  bind(*network, weights);
  if (validation_network) bind(*validation_network, weights);
  const auto seed = static_cast<std::uint64_t>(config.run.seed);
  const mpi::CpuProgressScope working(machine.watchdog, "setting the first weights");
  network->parameters().initialise(machine.device->memory(), seed, weights.parameters);
  network->statistics().initialise(machine.device->memory(), seed, weights.statistics);
}

void RunModel::bind(Network& bound, const Model& with) const {
  const bool trains = &bound == network.get();
  bound.bind({.parameters = with.parameters,
              .gradients = trains ? parameter_part(gradients(), with) : DeviceSpan<float>{},
              .statistics = with.statistics,
              .step_statistics = trains ? statistics_part(gradients(), with) : DeviceSpan<float>{}});
}

void RunModel::evaluate_with(const Model& evaluated) {
  bind(evaluator(), evaluated);
}

void RunModel::train_with(const Model& trained) {
  bind(*network, trained);
}

/// Makes a guard only if the overflow check is all that would make the host wait for a step.
std::unique_ptr<OverflowGuard> RunModel::make_overflow_guard() const {
  if (!loss_scale.enabled() || config.all_reduce() == nullptr || config.train.gradient_clip_norm > 0.0 ||
      !config.train.class_weights.empty())
    return nullptr;
  return machine.device->overflow_guard({.rule = loss_scale.rule(),
                                         .loss_divisor = loss_divisor(),
                                         .beta1 = static_cast<float>(config.optimizer.beta1),
                                         .beta2 = static_cast<float>(config.optimizer.beta2)});
}

float RunModel::loss_divisor() const {
  const bool takes_mean = config.train.accumulate == Accumulation::average && !config.run.reproducible;
  return static_cast<float>(sharding.batch * (takes_mean ? sharding.micro_steps : 1));
}

DeviceScalar<float> RunModel::backward_scale() const {
  return overflow_guard ? overflow_guard->backward_scale()
                        : DeviceScalar<float>(loss_scale.scale() / loss_divisor());
}

}  // namespace flotilla
