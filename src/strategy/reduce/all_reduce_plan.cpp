// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/reduce/all_reduce_plan.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/choose_all_reduce.hpp"
#include "mpi/all_reduce/nccl/nccl_all_reduce.hpp"
#include "mpi/core/shared_memory.hpp"
#include "mpi/core/slices.hpp"
#include "mpi/core/topology.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

namespace {

bool keeps_order(const AllReducePlan& plan) {
  return plan.order == mpi::SumOrder::any || mpi::groups_are_subtrees(plan.groups);
}

/// Whether gradients are rounded on their way where the plan has a half wire.
bool uses_wire(AllReduceKind kind) {
  return kind == AllReduceKind::mpi || kind == AllReduceKind::hierarchical || kind == AllReduceKind::nccl_mpi;
}

std::size_t count_groups(const AllReducePlan& plan) {
  return std::set(plan.groups.begin(), plan.groups.end()).size();
}

/// Algorithms to measure between GPUs, the likeliest first; empty: sums must go through the host's memory.
std::vector<AllReduceKind> worth_measuring_on_gpus(const AllReducePlan& plan, std::size_t workers,
                                                   bool one_host) {
  if (plan.order == mpi::SumOrder::tree) return {};
  const std::size_t groups = count_groups(plan);
  const bool in_groups = groups > 1 && mpi::groups_are_equal(plan.groups);
  if (plan.wire != mpi::Wire::float32 && !one_host)
    return in_groups && plan.communicators == 1 ? std::vector{AllReduceKind::nccl_mpi}
                                                : std::vector<AllReduceKind>{};
  if (in_groups && groups < workers) return {AllReduceKind::nccl, AllReduceKind::nccl_hierarchical};
  return {AllReduceKind::nccl};
}

bool needs_window(AllReduceKind kind, const AllReducePlan& plan) {
  return kind == AllReduceKind::shared_memory ||
         (kind == AllReduceKind::hierarchical && plan.groups_in_memory);
}

/// Algorithms to measure, the likeliest first.
std::vector<AllReduceKind> worth_measuring(const AllReducePlan& plan, std::size_t workers, bool one_memory,
                                           bool nccl) {
  if (workers == 1) return {AllReduceKind::mpi};
  if (nccl) {
    const std::vector<AllReduceKind> kinds = worth_measuring_on_gpus(plan, workers, one_memory);
    if (!kinds.empty()) return kinds;
  }
  // Nothing came near it there, and a choice by measurement would let bits differ from run to run.
  if (one_memory) return {AllReduceKind::shared_memory};
  const std::size_t groups = count_groups(plan);
  if (groups > 1 && groups < workers && keeps_order(plan))
    return {AllReduceKind::hierarchical, AllReduceKind::mpi};
  return {AllReduceKind::mpi};
}

void check_communicators(std::int64_t communicators, std::size_t buckets) {
  if (static_cast<std::size_t>(communicators) <= buckets) return;
  throw UserError(cat("strategy.communicators = ", communicators, ", but the gradients make ", buckets,
                      buckets == 1 ? " bucket" : " buckets",
                      ": give at most that many, or a smaller strategy.bucket_mb"));
}

/// In the host's memory.
std::unique_ptr<mpi::Collectives> make_on_host(AllReduceKind kind, const AllReducePlan& plan,
                                               const mpi::Communicator& world, const mpi::Communicator& host,
                                               mpi::SharedStorage* window, mpi::Wire wire) {
  if (kind == AllReduceKind::shared_memory) return mpi::make_shared_memory_all_reduce(host, *window);
  if (kind == AllReduceKind::mpi) return mpi::make_mpi_all_reduce(world, wire, plan.order);
  require(kind == AllReduceKind::hierarchical, "no all-reduce \"", kind, "\" in the host's memory");
  const auto group = world.split(plan.groups[static_cast<std::size_t>(world.rank())]);
  return mpi::make_hierarchical_all_reduce(world, group, plan.groups_in_memory ? window : nullptr, wire,
                                           plan.order);
}

/// In the memory of GPUs. `most`: floats that are summed at once.
std::unique_ptr<mpi::Collectives> make_on_gpus(AllReduceKind kind, const AllReducePlan& plan,
                                               const mpi::Communicator& world, Device& device,
                                               std::size_t most) {
  const NativeStream stream = device.queue().native_stream();
  if (kind == AllReduceKind::nccl) return mpi::make_nccl_all_reduce(world, stream);
  const auto group = world.split(plan.groups[static_cast<std::size_t>(world.rank())]);
  if (kind == AllReduceKind::nccl_hierarchical)
    return mpi::make_nccl_hierarchical_all_reduce(world, group, stream);
  return mpi::make_nccl_over_mpi_all_reduce(
      world, group, stream, device.memory().pinned(mpi::EvenSlices(most, group.size()).most()), plan.wire);
}

/// NCCL connects GPUs when they first exchange an array of a size: not in a step.
void warm_up(mpi::Collectives& collectives, std::span<const DeviceSpan<float>> buckets) {
  for (const DeviceSpan<float> bucket : buckets) mpi::all_reduce_now(collectives, bucket);
  collectives.wait();
}

std::string describe(const AllReducePlan& plan, AllReduceKind kind) {
  std::string text(word(kind));
  if (kind == AllReduceKind::hierarchical || kind == AllReduceKind::nccl_hierarchical ||
      kind == AllReduceKind::nccl_mpi)
    text += cat(" in ", *std::ranges::max_element(plan.groups) + 1, " groups");
  if (uses_wire(kind) && plan.wire != mpi::Wire::float32) text += cat(", ", plan.wire);
  if (plan.staged) text += ", through host memory";
  if (plan.communicators > 1) text += cat(", ", plan.communicators, " communicators");
  return text;
}

}  // namespace

AllReducePlan plan_all_reduce(const ReductionConfig& deck, const AllReduceNeeds& needs) {
  check_communicators(needs.communicators, needs.buckets);
  const std::vector<mpi::Place>& places = needs.places;
  const bool one_memory = mpi::hosts(places) == 1;
  AllReducePlan plan;
  plan.wire = deck.wire;
  plan.order = needs.order;
  plan.communicators = static_cast<int>(needs.communicators);
  plan.groups = mpi::cut_groups(places, static_cast<int>(deck.ranks_per_group));
  plan.groups_in_memory = mpi::groups_stay_on_hosts(places, plan.groups);
  if (deck.all_reduce == AllReduceKind::shared_memory && !one_memory)
    throw UserError(
        cat("strategy.all_reduce = \"shared-memory\" needs all workers on one host; these run on ",
            mpi::hosts(places), ": use \"auto\", \"hierarchical\" or \"mpi\""));
  if (deck.all_reduce == AllReduceKind::hierarchical && !keeps_order(plan))
    throw UserError(
        "strategy.all_reduce = \"hierarchical\" and run.reproducible exclude each other with these groups: "
        "they "
        "must be consecutive ranks, a power of two of them (mpirun --map-by slot, strategy.ranks_per_group), "
        "to be parts of the one tree; or use \"mpi\" or \"auto\"");
  if (uses_nccl(deck.all_reduce) && !needs.no_nccl.empty())
    throw UserError(cat("strategy.all_reduce = \"", deck.all_reduce, "\" ", needs.no_nccl));
  if (uses_nccl(deck.all_reduce) && deck.all_reduce != AllReduceKind::nccl &&
      !mpi::groups_are_equal(plan.groups))
    throw UserError(cat("strategy.all_reduce = \"", deck.all_reduce,
                        "\" needs groups of one size: start as many ranks on each host, give a "
                        "strategy.ranks_per_group that divides the ",
                        places.size(), " workers, or use \"nccl\""));
  plan.candidates = {deck.all_reduce};
  if (deck.all_reduce == AllReduceKind::automatic) {
    plan.candidates = worth_measuring(plan, places.size(), one_memory, needs.no_nccl.empty());
    const auto chosen = std::ranges::find(plan.candidates, needs.saved, &word<AllReduceKind>);
    if (chosen != plan.candidates.end()) plan.candidates = {*chosen};
  }
  const AllReduceKind likeliest = plan.candidates.front();
  const bool sums_only_on_gpus =
      uses_nccl(likeliest) && (plan.wire == mpi::Wire::float32 || !uses_wire(likeliest));
  plan.staged = !needs.shares_memory && places.size() > 1 && !sums_only_on_gpus;
  plan.window =
      std::ranges::any_of(plan.candidates, [&](AllReduceKind kind) { return needs_window(kind, plan); });
  return plan;
}

void fit_to_shared_memory(AllReducePlan& plan, bool automatic, std::size_t count,
                          const mpi::Communicator& all) {
  const std::string missing = mpi::missing_shared_memory(all, plan.window ? count * sizeof(float) : 0);
  if (missing.empty()) return;
  if (!automatic) throw AgreedFailure(missing, exit_user_error);
  if (!plan.window) return;
  const auto windowed =
      std::ranges::find_if(plan.candidates, [&](AllReduceKind kind) { return needs_window(kind, plan); });
  plan.left_out = cat("strategy.all_reduce = \"auto\" does without \"", *windowed, "\": ", missing);
  plan.candidates = {AllReduceKind::mpi};
  plan.window = false;
}

std::vector<int> Reduction::missing_ranks() const {
  std::set<int> all;
  for (const auto& lane : lanes)
    for (const int rank : lane->missing_ranks()) all.insert(rank);
  return {all.begin(), all.end()};
}

std::string Reduction::failure() const {
  for (const auto& lane : lanes) {
    std::string failure = lane->failure();
    if (!failure.empty()) return failure;
  }
  return {};
}

Reduction make_reduction(const AllReducePlan& plan, const mpi::Communicator& world,
                         const mpi::Communicator& host, Device& device, const ReducedArray& array,
                         std::span<const DeviceSpan<float>> buckets) {
  const std::size_t most = std::ranges::max(buckets, {}, &DeviceSpan<float>::size).size();
  const auto make = [&](AllReduceKind kind, mpi::Wire wire) -> std::unique_ptr<mpi::Collectives> {
    if (uses_nccl(kind)) {
      auto sums = make_on_gpus(kind, plan, world, device, most);
      warm_up(*sums, buckets);
      return sums;
    }
    auto sums = make_on_host(kind, plan, world, host, array.window(), wire);
    if (device.info().shares_host_memory) return sums;
    return mpi::make_staged_all_reduce(device.queue(), std::move(sums), array.mirror());
  };
  std::vector<std::unique_ptr<mpi::Collectives>> candidates;
  std::vector<mpi::Collectives*> measured;
  for (const AllReduceKind kind : plan.candidates)
    measured.push_back(candidates.emplace_back(make(kind, plan.wire)).get());
  Reduction reduction;
  reduction.left_out = plan.left_out;
  std::size_t winner = 0;
  if (candidates.size() > 1) {
    const mpi::AllReduceChoice choice = mpi::choose_all_reduce(world, measured, buckets);
    winner = choice.winner;
    reduction.table = choice.table();
  }
  const AllReduceKind kind = plan.candidates[winner];
  reduction.lanes.push_back(std::move(candidates[winner]));
  while (reduction.lanes.size() < static_cast<std::size_t>(plan.communicators))
    reduction.lanes.push_back(make(kind, plan.wire));
  if (uses_wire(kind) && plan.wire != mpi::Wire::float32)
    reduction.exact = make(AllReduceKind::mpi, mpi::Wire::float32);
  reduction.description = describe(plan, kind);
  return reduction;
}

ReducedArray::ReducedArray(Device& device, std::size_t count, const AllReducePlan& plan,
                           const mpi::Communicator& host) {
  if (plan.window) window_ = std::make_unique<mpi::SharedStorage>(host, count);
  if (window_ && device.info().shares_host_memory) {
    values_ = device_span(window_->mine());
    return;
  }
  storage_ = device.memory().allocate(count);
  values_ = storage_.span();
  if (!plan.staged) return;
  pinned_ = window_ ? device.memory().pin(window_->mine()) : device.memory().pinned(count);
  mirror_ = {values_, window_ ? window_->mine() : host_span(pinned_.span())};
}

}  // namespace flotilla
