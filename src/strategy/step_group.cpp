// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/step_group.hpp"

#include <utility>

#include "mpi/core/groups.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

std::optional<StepGroup> make_step_group(const StrategyConfig& strategy, const mpi::Communicator& world,
                                         const std::vector<mpi::Place>& places) {
  const bool begins_together =
      strategy.before_begin == "all-reduce" && (strategy.begin_step > 0 || strategy.begin_epoch > 0.0);
  if (strategy.kind == "all-reduce" || begins_together) return std::nullopt;
  std::vector<int> groups;
  throw_alike([&] { groups = mpi::cut_groups(places, static_cast<int>(strategy.ranks_per_group)); });
  const int own = world.rank();
  mpi::Communicator workers =
      world.split(strategy.group_all_reduce ? groups[static_cast<std::size_t>(own)] : own);
  mpi::Communicator host = workers.split_by_host();
  std::vector<mpi::Place> inside = mpi::find_topology(workers);
  StrategyConfig within = strategy;
  within.ranks_per_group = 0;
  if (workers.size() == 1) {  // nothing is added up
    within.all_reduce = "mpi";
    within.wire = "float32";
  }
  return StepGroup{std::move(workers), std::move(host), std::move(inside), std::move(within)};
}

}  // namespace flotilla
