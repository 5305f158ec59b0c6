// SPDX-License-Identifier: Apache-2.0
#include "src/train/all_reduce_plan.hpp"

#include <algorithm>
#include <set>

#include "kernels/error.hpp"
#include "mpi/choose_all_reduce.hpp"
#include "mpi/groups.hpp"
#include "src/train/reduced_array.hpp"

namespace flotilla {

namespace {

bool keeps_order(const AllReducePlan& plan) {
  return plan.order == mpi::SumOrder::any || mpi::groups_are_subtrees(plan.groups);
}

/// What may be worth while, the likeliest first.
std::vector<std::string> worth_measuring(const AllReducePlan& plan, std::size_t workers, bool one_memory) {
  if (workers == 1) return {"mpi"};
  // Nothing came near it there, and a choice by measurement would let bits differ from run to run.
  if (one_memory) return {"shared-memory"};
  const std::size_t groups = std::set(plan.groups.begin(), plan.groups.end()).size();
  std::vector<std::string> words;
  if (groups > 1 && groups < workers && keeps_order(plan)) words.emplace_back("hierarchical");
  words.emplace_back("mpi");
  return words;
}

void check_communicators(const StrategyConfig& strategy, std::size_t buckets) {
  if (static_cast<std::size_t>(strategy.communicators) <= buckets) return;
  throw UserError(cat("strategy.communicators = ", strategy.communicators, ", but the gradients make ",
                      buckets, buckets == 1 ? " bucket" : " buckets",
                      ": give at most that many, or a smaller strategy.bucket_mb"));
}

/// In the host's memory.
std::unique_ptr<mpi::Collectives> make_on_host(const std::string& word, const AllReducePlan& plan,
                                               const mpi::Communicator& world, const mpi::Communicator& host,
                                               mpi::SharedStorage* window, mpi::Wire wire) {
  if (word == "shared-memory") return mpi::make_shared_memory_all_reduce(host, *window);
  if (word == "mpi") return mpi::make_mpi_all_reduce(world, wire, plan.order);
  require(word == "hierarchical", "no all-reduce \"", word, "\"");
  const auto group = world.split(plan.groups[static_cast<std::size_t>(world.rank())]);
  return mpi::make_hierarchical_all_reduce(world, group, plan.groups_in_memory ? window : nullptr, wire,
                                           plan.order);
}

std::string describe(const AllReducePlan& plan, const std::string& word) {
  std::string text = word;
  if (word == "hierarchical") text += cat(" in ", *std::ranges::max_element(plan.groups) + 1, " groups");
  if (word != "shared-memory" && plan.wire != mpi::Wire::float32) text += cat(", ", mpi::word_of(plan.wire));
  if (plan.communicators > 1) text += cat(", ", plan.communicators, " communicators");
  return text;
}

}  // namespace

AllReducePlan plan_all_reduce(const StrategyConfig& strategy, const std::vector<mpi::Place>& places,
                              bool shares_memory, const std::string& saved, std::size_t buckets,
                              mpi::SumOrder order) {
  check_communicators(strategy, buckets);
  const bool one_memory = mpi::hosts(places) == 1;
  AllReducePlan plan;
  plan.staged = !shares_memory && places.size() > 1;
  plan.wire = mpi::wire_of(strategy.wire);
  plan.order = order;
  plan.communicators = static_cast<int>(strategy.communicators);
  plan.groups = mpi::cut_groups(places, static_cast<int>(strategy.ranks_per_group));
  plan.groups_in_memory = mpi::groups_stay_on_hosts(places, plan.groups);
  if (strategy.all_reduce == "shared-memory" && !one_memory)
    throw UserError(
        cat("strategy.all_reduce = \"shared-memory\" needs all workers on one host; these run on ",
            mpi::hosts(places), ": use \"auto\", \"hierarchical\" or \"mpi\""));
  if (strategy.all_reduce == "hierarchical" && !keeps_order(plan))
    throw UserError(
        "strategy.all_reduce = \"hierarchical\" and run.reproducible exclude each other with these groups: "
        "they "
        "must be consecutive ranks, a power of two of them (mpirun --map-by slot, strategy.ranks_per_group), "
        "to be parts of the one tree; or use \"mpi\" or \"auto\"");
  plan.candidates = {strategy.all_reduce};
  if (strategy.all_reduce == "auto") {
    plan.candidates = worth_measuring(plan, places.size(), one_memory);
    if (std::ranges::count(plan.candidates, saved) > 0) plan.candidates = {saved};
  }
  for (const std::string& word : plan.candidates)
    plan.window = plan.window || word == "shared-memory" || (word == "hierarchical" && plan.groups_in_memory);
  return plan;
}

std::vector<int> Reduction::missing_ranks() const {
  std::set<int> all;
  for (const auto& lane : lanes)
    for (const int rank : lane->missing_ranks()) all.insert(rank);
  return {all.begin(), all.end()};
}

Reduction make_reduction(const AllReducePlan& plan, const mpi::Communicator& world,
                         const mpi::Communicator& host, Device& device, const ReducedArray& array,
                         std::span<const DeviceSpan<float>> buckets) {
  const auto make = [&](const std::string& word, mpi::Wire wire) {
    auto sums = make_on_host(word, plan, world, host, array.window(), wire);
    if (device.shares_host_memory()) return sums;
    return mpi::make_staged_all_reduce(device, std::move(sums), array.mirror());
  };
  std::vector<std::unique_ptr<mpi::Collectives>> candidates;
  std::vector<mpi::Collectives*> measured;
  for (const std::string& word : plan.candidates)
    measured.push_back(candidates.emplace_back(make(word, plan.wire)).get());
  Reduction reduction;
  std::size_t winner = 0;
  if (candidates.size() > 1) {
    const mpi::AllReduceChoice choice = mpi::choose_all_reduce(world, measured, buckets);
    winner = choice.winner;
    reduction.table = choice.table();
  }
  const std::string& word = plan.candidates[winner];
  reduction.lanes.push_back(std::move(candidates[winner]));
  while (reduction.lanes.size() < static_cast<std::size_t>(plan.communicators))
    reduction.lanes.push_back(make(word, plan.wire));
  if (word != "shared-memory" && plan.wire != mpi::Wire::float32)
    reduction.exact = make("mpi", mpi::Wire::float32);
  reduction.description = describe(plan, word);
  return reduction;
}

}  // namespace flotilla
