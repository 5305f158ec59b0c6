// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/reduce/all_reduce_plan.hpp"

#include <algorithm>
#include <set>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/choose_all_reduce.hpp"
#include "mpi/core/shared_memory.hpp"
#include "src/job/failure.hpp"
#include "src/strategy/reduce/power_sgd.hpp"

namespace flotilla {

namespace {

void check_communicators(std::int64_t communicators, std::size_t buckets) {
  if (static_cast<std::size_t>(communicators) <= buckets) return;
  throw UserError(cat("strategy.communicators = ", communicators, ", but the gradients make ", buckets,
                      buckets == 1 ? " bucket" : " buckets",
                      ": give at most that many, or a smaller strategy.bucket_mb"));
}

/// NCCL connects GPUs when they first exchange an array of a size: not in a step.
void warm_up(mpi::Collectives& collectives, std::span<const DeviceSpan<float>> buckets) {
  for (const DeviceSpan<float> bucket : buckets) mpi::all_reduce_now(collectives, bucket);
  collectives.wait();
}

}  // namespace

AllReducePlan plan_all_reduce(const ReductionConfig& deck, const AllReduceNeeds& needs) {
  check_communicators(needs.communicators, needs.buckets);
  AllReducePlan plan{mpi::find_site(needs.places, static_cast<int>(deck.ranks_per_group))};
  plan.wire = deck.wire;
  plan.stochastic = deck.wire_rounding == WireRounding::stochastic;
  plan.seed = static_cast<std::uint64_t>(needs.seed);
  plan.order = needs.order;
  plan.communicators = static_cast<int>(needs.communicators);
  plan.no_nccl = needs.no_nccl;
  plan.link = deck.link;
  if (const mpi::AllReduceKind* const kind = kind_of(deck.all_reduce); kind != nullptr) {
    if (const std::string refusal = why_not(*kind, plan); !refusal.empty()) throw UserError(refusal);
    plan.candidates = {kind};
  } else {
    plan.candidates = worth_measuring(plan);
    const auto chosen = std::ranges::find(plan.candidates, needs.saved, &mpi::AllReduceKind::word);
    if (chosen != plan.candidates.end()) plan.candidates = {*chosen};
  }
  if (plan.link.is_on()) plan.candidates.resize(1);  // the first goes through the groups, if there are any
  const mpi::AllReduceKind& likeliest = *plan.candidates.front();
  const bool rounds = plan.wire != Wire::float32 && likeliest.carries(plan.wire);
  plan.staged = !needs.shares_memory && plan.ranks > 1 && (!likeliest.on_gpus() || rounds);
  plan.window = std::ranges::any_of(
      plan.candidates, [&](const mpi::AllReduceKind* kind) { return needs_window(*kind, plan); });
  return plan;
}

void fit_to_shared_memory(AllReducePlan& plan, bool automatic, std::size_t count,
                          const mpi::Communicator& all) {
  const std::string missing = mpi::missing_shared_memory(all, plan.window ? count * sizeof(float) : 0);
  if (missing.empty()) return;
  if (!automatic) throw AgreedFailure(missing, exit_user_error);
  if (!plan.window) return;
  const auto windowed = std::ranges::find_if(
      plan.candidates, [&](const mpi::AllReduceKind* kind) { return needs_window(*kind, plan); });
  plan.left_out = cat("strategy.all_reduce = \"auto\" does without \"", (*windowed)->word, "\": ", missing);
  plan.candidates = {&mpi::all_reduce_kind("mpi")};
  plan.window = false;
}

void Reduction::clear_errors() {
  if (rounds()) std::ranges::fill(host_span(errors.span()), 0.0F);
  if (compression) compression->clear_errors();
}

std::vector<StateArray> Reduction::error_arrays(std::size_t first, std::size_t count) {
  if (compression) return {compression->errors()};
  if (!rounds()) return {};
  return {{"strategy/wire_errors", StateArray::Layout::parameters, errors.span().subspan(first, count)}};
}

std::vector<int> Reduction::missing_ranks() const {
  std::set<int> all;
  for (const auto& lane : lanes)
    for (const int rank : lane->missing_ranks()) all.insert(rank);
  if (compression)
    for (const int rank : compression->reduction().missing_ranks()) all.insert(rank);
  return {all.begin(), all.end()};
}

std::string Reduction::failure() const {
  for (const auto& lane : lanes) {
    std::string failure = lane->failure();
    if (!failure.empty()) return failure;
  }
  return compression ? compression->reduction().failure() : std::string();
}

Reduction make_reduction(const AllReducePlan& plan, const mpi::Communicator& world,
                         const mpi::Communicator& host, Device& device, const ReducedArray& array,
                         std::span<const DeviceSpan<float>> buckets) {
  const NativeStream stream = device.queue().native_stream();
  const mpi::AllReduceParts parts{
      .site = plan,
      .world = world,
      .host = host,
      .window = array.window(),
      .most = std::ranges::max(buckets, {}, &DeviceSpan<float>::size).size(),
      .stream = &stream,
      .pinned = [&device](std::size_t floats) { return device.memory().pinned(floats); }};
  Reduction reduction;
  if (is_scaled(plan.wire) && plan.ranks > 1) {
    require(device.info().shares_host_memory, "a wire with scales for a device with memory of its own");
    const float* const first = array.values().address();
    std::size_t size = 0;
    for (const DeviceSpan<float> bucket : buckets)
      size = std::max(size, static_cast<std::size_t>(bucket.address() - first) + bucket.size());
    reduction.errors = device.memory().allocate(size);
    reduction.rounding = std::make_unique<mpi::WireRounding>(
        mpi::WireRounding{plan.seed, plan.stochastic, first, host_span(reduction.errors.span())});
  }
  if (plan.link.is_on()) {
    const bool in_groups = plan.candidates.front()->groups != mpi::Groups::none;
    reduction.link = std::make_unique<mpi::EmulatedLink>(plan.link, plan.seed,
                                                         in_groups ? plan.ranks / plan.group_count() : 1);
  }
  const auto make = [&](const mpi::AllReduceKind& kind, mpi::Wire wire) {
    mpi::AllReduceParts own = parts;
    own.wire = wire;
    own.link = reduction.link.get();
    own.rounding = reduction.rounding.get();
    auto sums = kind.make(own);
    if (kind.on_gpus()) {
      warm_up(*sums, buckets);
    } else if (!device.info().shares_host_memory) {
      sums = mpi::make_staged_all_reduce(device.queue(), std::move(sums), array.mirror());
    }
    return sums;
  };
  std::vector<std::unique_ptr<mpi::Collectives>> candidates;
  std::vector<mpi::AllReduceCandidate> measured;
  for (const mpi::AllReduceKind* const kind : plan.candidates)
    measured.push_back({kind->word, *candidates.emplace_back(make(*kind, plan.wire))});
  reduction.left_out = plan.left_out;
  std::size_t winner = 0;
  if (candidates.size() > 1) {
    const mpi::AllReduceChoice choice = mpi::choose_all_reduce(world, measured, buckets);
    winner = choice.winner;
    reduction.table = choice.table();
  }
  const mpi::AllReduceKind& kind = *plan.candidates[winner];
  reduction.kind = &kind;
  reduction.lanes.push_back(std::move(candidates[winner]));
  while (reduction.lanes.size() < static_cast<std::size_t>(plan.communicators))
    reduction.lanes.push_back(make(kind, plan.wire));
  if (plan.wire != Wire::float32 && kind.carries(plan.wire))
    reduction.exact = make(mpi::all_reduce_kind("mpi"), Wire::float32);
  reduction.description = describe(kind, plan);
  if (plan.staged) reduction.description += ", through host memory";
  if (reduction.rounds()) {
    reduction.description += plan.stochastic ? " (stochastic)" : " (nearest)";
    reduction.clear_errors();  // what measurements have left
  }
  if (plan.communicators > 1) reduction.description += cat(", ", plan.communicators, " communicators");
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
