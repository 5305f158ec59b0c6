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

/// The ranks whose hash is not that of the most; of groups of one size that of the lowest rank counts.
std::vector<int> minority(std::span<const std::int64_t> hashes) {
  std::int64_t most = 0;
  std::int64_t right = hashes.front();
  for (const std::int64_t hash : hashes) {
    const std::int64_t count = std::ranges::count(hashes, hash);
    if (count > most) right = hash;
    most = std::max(most, count);
  }
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank)
    if (hashes[rank] != right) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

int lowest_not_in(const std::vector<int>& ranks) {
  int rank = 0;
  while (std::ranges::count(ranks, rank) > 0) ++rank;
  return rank;
}

std::size_t largest_tensor(const Network& network) {
  std::int64_t largest = 0;
  for (const TensorSet* set : {&network.parameters(), &network.statistics()})
    for (const Slice& slice : set->layout().slices()) largest = std::max(largest, slice.size);
  return static_cast<std::size_t>(largest);
}

/// As bits: NaN equals itself, and 0 is not −0.
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

std::string Disagreement::text(int workers, std::int64_t step) const {
  const std::string who = ranks.size() == 1 ? "holds"
                                            : fmt::format("and rank{} {} hold", ranks.size() == 2 ? "" : "s",
                                                          fmt::join(std::span(ranks).subspan(1), ", "));
  const bool undecided = 2 * static_cast<int>(ranks.size()) == workers;
  return fmt::format(
      "{} another model than {} after step {}: the first tensor that differs is {} ({} of {} values, the "
      "first is "
      "{} here and {} on rank {}){}; the memory or processor of a host is bad, or this is a mistake in "
      "Flotilla",
      who, workers == 2 ? "rank 0" : "the others", step, tensor, differing, size, value, reference_value,
      reference, undecided ? "; which is right cannot be determined" : "");
}

AgreementCheck::AgreementCheck(const mpi::Communicator& world, const Network& network)
    : world_(world), staging_(network.device(), largest_tensor(network)) {
  for (const Slice& slice : network.layout().slices()) tensors_.push_back({&slice, false});
  for (const Slice& slice : network.statistics().layout().slices()) tensors_.push_back({&slice, true});
  hashes_.resize(tensors_.size());
  combined_.resize(static_cast<std::size_t>(world.size()));
}

std::span<const float> AgreementCheck::values(const Tensor& tensor, const Model& model) {
  const auto all = tensor.statistic ? model.statistics : model.parameters;
  const auto part = all.subspan(static_cast<std::size_t>(tensor.slice->offset),
                                static_cast<std::size_t>(tensor.slice->size));
  return staging_.read(part);
}

std::optional<Disagreement> AgreementCheck::compare(const Model& model, mpi::CallSite at) {
  if (world_.size() == 1 || model.parameters.empty()) return std::nullopt;
  const trace::Span span("agreement check");
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const bool held = !tensors_[i].statistic || !model.statistics.empty();
    hashes_[i] = held ? hash_of(std::as_bytes(values(tensors_[i], model))) : 0;
  }
  const std::array<std::int64_t, 1> mine{hash_of(std::as_bytes(std::span(hashes_)))};
  world_.all_gather(std::span<const std::int64_t>(mine), std::span(combined_), at);
  const bool agreed =
      std::ranges::all_of(combined_, [&](std::int64_t hash) { return hash == combined_.front(); });
  if (agreed) return std::nullopt;
  return examine(model);
}

/// Collective.
Disagreement AgreementCheck::examine(const Model& model) {
  const std::vector<std::int64_t> all = world_.all_gather(std::span<const std::int64_t>(hashes_));
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    std::vector<std::int64_t> hashes;
    for (std::size_t at = tensor; at < all.size(); at += tensors_.size()) hashes.push_back(all[at]);
    const std::vector<int> ranks = minority(hashes);
    if (ranks.empty()) continue;

    Disagreement found{
        .ranks = ranks, .reference = lowest_not_in(ranks), .tensor = tensors_[tensor].slice->name};
    const auto mine = values(tensors_[tensor], model);
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
