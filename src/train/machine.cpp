// SPDX-License-Identifier: Apache-2.0
#include "src/train/machine.hpp"

#include <string>
#include <utility>

#include "kernels/error.hpp"
#include "mpi/core/topology.hpp"
#include "src/data/sharding.hpp"
#include "src/job/devices.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

std::optional<StepGroup> make_step_group(const Config& config, const mpi::Communicator& world,
                                         const std::vector<mpi::Place>& places) {
  const LocalSgdConfig* local = config.local_sgd();
  if (local == nullptr) return std::nullopt;
  if (local->before_begin == BeforeBegin::all_reduce && (local->begin_step > 0 || local->begin_epoch > 0.0))
    return std::nullopt;
  std::vector<int> groups;
  throw_alike([&] { groups = mpi::cut_groups(places, static_cast<int>(config.reduction.ranks_per_group)); });
  const int own = world.rank();
  mpi::Communicator workers =
      world.split(local->group_all_reduce ? groups[static_cast<std::size_t>(own)] : own);
  mpi::Communicator host = workers.split_by_host();
  std::vector<mpi::Place> inside = mpi::find_topology(workers);
  ReductionConfig within = config.reduction;
  within.ranks_per_group = 0;
  within.link = {};           // a group is an emulated host
  if (workers.size() == 1) {  // nothing is added up
    within.all_reduce = word_of(mpi::all_reduce_kind("mpi"));
    within.wire = Wire::float32;
  }
  if (!local->group_all_reduce) groups.clear();
  return StepGroup{std::move(workers), std::move(host), std::move(inside), within, std::move(groups)};
}

namespace {

/// Collective. For synchronised batch norm over the workers of this one's group; null if each is alone.
std::unique_ptr<CommunicatorExchange> make_exchange(const ModelConfig& model, const mpi::Communicator& world,
                                                    Device& device) {
  if (!model.synchronises_batch_norm()) return nullptr;
  const std::int64_t group = model.batch_norm_group == 0 ? world.size() : model.batch_norm_group;
  throw_alike([&] {
    if (world.size() % group != 0)
      throw UserError(cat("model.batch_norm_group = ", group, " does not divide the ", world.size(),
                          world.size() == 1 ? " worker" : " workers",
                          "; groups that do: ", divisors_of(world.size()), "; 0: all of them together"));
  });
  if (group == 1) return nullptr;
  return std::make_unique<CommunicatorExchange>(world.split(static_cast<int>(world.rank() / group)), device);
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

Machine::Machine(const Config& config, const mpi::Communicator& all_workers, mpi::Watchdog& watched_by,
                 ServerLink* parameter_servers)
    : workers(all_workers),
      watchdog(watched_by),
      servers(parameter_servers),
      places(places_of_workers(all_workers, parameter_servers)),
      gpus(find_gpus(config.device, all_workers, places)),
      precision(find_precision(config.device, all_workers, places)),
      host(all_workers.split_by_host()),
      step_group(make_step_group(config, all_workers, places)) {
  agree(workers, places, [&] {
    const mpi::CpuProgressScope working(watchdog, "preparing the device");
    device = make_device(config.device, precision, own_place(), gpus.ordinal(workers.rank()),
                         config.run.reproducible);
    straggler.emplace(config.emulate_straggler, workers.rank(), workers.size());
  });
  exchange = make_exchange(config.model, workers, *device);
  if (exchange) exchange->watch(watchdog);
}

}  // namespace flotilla
