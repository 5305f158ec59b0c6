// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/step_group.hpp"

#include <utility>

#include "mpi/core/topology.hpp"
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
  if (workers.size() == 1) {  // nothing is added up
    within.all_reduce = AllReduceKind::mpi;
    within.wire = Precision::float32;
  }
  if (!local->group_all_reduce) groups.clear();
  return StepGroup{std::move(workers), std::move(host), std::move(inside), within, std::move(groups)};
}

}  // namespace flotilla
