// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/agreement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "src/files/checksum.hpp"

namespace flotilla {

namespace {

std::int64_t hash_of(std::span<const std::byte> bytes) {
  return std::bit_cast<std::int64_t>(checksum_of(bytes));
}

/// The ranks among `members` whose hash differs from the most frequent one; of equally frequent ones that of
/// the lowest rank counts.
std::vector<int> minority(std::span<const std::int64_t> hashes, const std::vector<int>& members) {
  const auto hash_of_rank = [&](int rank) { return hashes[static_cast<std::size_t>(rank)]; };
  std::int64_t most = 0;
  std::int64_t right = hash_of_rank(members.front());
  for (const int member : members) {
    const std::int64_t count = std::ranges::count(members, hash_of_rank(member), hash_of_rank);
    if (count > most) right = hash_of_rank(member);
    most = std::max(most, count);
  }
  std::vector<int> ranks;
  for (const int member : members)
    if (hash_of_rank(member) != right) ranks.push_back(member);
  return ranks;
}

/// The ranks of the group of `rank` if that is its lowest one, otherwise none.
std::vector<int> members_of_group_led_by(std::size_t rank, std::span<const int> groups) {
  std::vector<int> members;
  for (std::size_t other = 0; other < groups.size(); ++other) {
    if (groups[other] != groups[rank]) continue;
    if (other < rank) return {};
    members.push_back(static_cast<int>(other));
  }
  return members;
}

std::size_t largest_tensor(const Network& network) {
  std::int64_t largest = 0;
  for (const TensorSet* set : {&network.parameters(), &network.statistics()})
    for (const Slice& slice : set->layout().slices()) largest = std::max(largest, slice.size);
  return static_cast<std::size_t>(largest);
}

/// Compares bits: NaN equals itself, and 0 is not −0.
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

std::string Disagreement::text(std::int64_t step) const {
  const std::string who = ranks.size() == 1 ? "holds"
                                            : fmt::format("and rank{} {} hold", ranks.size() == 2 ? "" : "s",
                                                          fmt::join(std::span(ranks).subspan(1), ", "));
  const bool undecided = 2 * static_cast<int>(ranks.size()) == compared;
  return fmt::format(
      "{} another model than {} after step {}: the first tensor that differs is {} ({} of {} values, the "
      "first is "
      "{} here and {} on rank {}){}; the memory or processor of a host is bad, or this is a mistake in "
      "Flotilla",
      who, compared == 2 ? cat("rank ", reference) : "the others", step, tensor, differing, size, value,
      reference_value, reference, undecided ? "; which is right cannot be determined" : "");
}

AgreementCheck::AgreementCheck(const mpi::Communicator& world, const Network& network,
                               std::vector<StateArray> own)
    : world_(world),
      own_(std::move(own)),
      compared_(own_.size()),
      one_group_(static_cast<std::size_t>(world.size())),
      staging_(network.device(), largest_tensor(network)) {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const bool statistics = own_[i].layout == StateArray::Layout::statistics;
    const ArenaLayout& layout = statistics ? network.statistics().layout() : network.layout();
    for (const Slice& slice : layout.slices()) tensors_.push_back({&slice, i});
  }
  hashes_.resize(tensors_.size());
  combined_.resize(static_cast<std::size_t>(world.size()));
}

std::span<const float> AgreementCheck::values(const Tensor& tensor) {
  return staging_.read(compared_[tensor.array].subspan(static_cast<std::size_t>(tensor.slice->offset),
                                                       static_cast<std::size_t>(tensor.slice->size)));
}

std::optional<Disagreement> AgreementCheck::compare(const Replicated& alike, mpi::CallSite at) {
  if (world_.size() == 1) return std::nullopt;
  const trace::Span span("agreement check");
  if (!alike.model.parameters.empty()) {
    for (std::size_t i = 2; i < own_.size(); ++i)
      compared_[i] = alike.slots ? own_[i].values : DeviceSpan<float>();
    compared_[0] = alike.model.parameters;
    compared_[1] = alike.model.statistics;
    if (auto found = compare_inside(one_group_, at)) return found;
  }
  if (alike.groups.empty()) return std::nullopt;
  for (std::size_t i = 0; i < own_.size(); ++i) compared_[i] = own_[i].values;
  return compare_inside(alike.groups, at);
}

/// Collective.
std::optional<Disagreement> AgreementCheck::compare_inside(std::span<const int> groups, mpi::CallSite at) {
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    hashes_[i] = compared_[tensors_[i].array].empty() ? 0 : hash_of(std::as_bytes(values(tensors_[i])));
  const std::array<std::int64_t, 1> mine{hash_of(std::as_bytes(std::span(hashes_)))};
  world_.all_gather(std::span<const std::int64_t>(mine), std::span(combined_), at);
  for (std::size_t rank = 0; rank < groups.size(); ++rank) {
    const auto first = static_cast<std::size_t>(std::ranges::find(groups, groups[rank]) - groups.begin());
    if (combined_[rank] != combined_[first]) return examine(groups);
  }
  return std::nullopt;
}

/// Collective.
Disagreement AgreementCheck::examine(std::span<const int> groups) {
  const std::vector<std::int64_t> all = world_.all_gather(std::span<const std::int64_t>(hashes_));
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    std::vector<std::int64_t> hashes;
    for (std::size_t at = tensor; at < all.size(); at += tensors_.size()) hashes.push_back(all[at]);
    std::vector<int> ranks;
    std::vector<int> members;
    for (std::size_t rank = 0; ranks.empty() && rank < groups.size(); ++rank) {
      members = members_of_group_led_by(rank, groups);
      if (!members.empty()) ranks = minority(hashes, members);
    }
    if (ranks.empty()) continue;

    const auto reference =
        std::ranges::find_if(members, [&](int rank) { return std::ranges::count(ranks, rank) == 0; });
    const auto& [slice, array] = tensors_[tensor];
    Disagreement found{.ranks = ranks,
                       .reference = *reference,
                       .compared = static_cast<int>(members.size()),
                       .tensor = array < 2 ? slice->name : cat(own_[array].group, "/", slice->name)};
    const auto mine = values(tensors_[tensor]);
    std::vector<float> others(mine.begin(), mine.end());
    world_.broadcast(std::span<float>(others), found.reference);
    std::array<float, 2> first{};
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (same(mine[i], others[i])) continue;
      if (found.differing++ == 0) first = {mine[i], others[i]};
    }
    found.size = static_cast<std::int64_t>(mine.size());
    world_.broadcast(std::span<std::int64_t>(&found.differing, 1), ranks.front());
    world_.broadcast(std::span<float>(first), ranks.front());
    found.value = first[0];
    found.reference_value = first[1];
    return found;
  }
  throw InternalError("the hashes of the model differ, but those of its tensors do not");
}

}  // namespace flotilla
