// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/all_reduce_kind.hpp"

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/emulated_link.hpp"
#include "mpi/all_reduce/nccl/nccl_all_reduce.hpp"
#include "mpi/core/slices.hpp"
#include "mpi/core/topology.hpp"

namespace flotilla::mpi {

namespace {

Communicator group_of(const AllReduceParts& parts) {
  return parts.world.split(parts.site.groups[static_cast<std::size_t>(parts.world.rank())]);
}

const NativeStream& stream_of(const AllReduceParts& parts) {
  require(parts.stream != nullptr, "an all-reduce on GPUs without a stream");
  return *parts.stream;
}

}  // namespace

int AllReduceSite::group_count() const {
  return groups.empty() ? 1 : *std::ranges::max_element(groups) + 1;
}

AllReduceSite find_site(const std::vector<Place>& places, int ranks_per_group) {
  AllReduceSite site{.ranks = static_cast<int>(places.size()),
                     .hosts = hosts(places),
                     .groups = cut_groups(places, ranks_per_group)};
  site.groups_in_memory = groups_stay_on_hosts(places, site.groups);
  return site;
}

std::unique_ptr<Collectives> make_nccl(const AllReduceParts& parts) {
  return make_nccl_all_reduce(parts.world, stream_of(parts));
}

std::unique_ptr<Collectives> make_nccl_hierarchical(const AllReduceParts& parts) {
  return make_nccl_hierarchical_all_reduce(parts.world, group_of(parts), stream_of(parts));
}

std::unique_ptr<Collectives> make_nccl_over_mpi(const AllReduceParts& parts) {
  const Communicator group = group_of(parts);
  return make_nccl_over_mpi_all_reduce(parts.world, group, stream_of(parts),
                                       parts.pinned(EvenSlices(parts.most, group.size()).most()), parts.wire);
}

std::unique_ptr<Collectives> make_shared_memory(const AllReduceParts& parts) {
  return make_shared_memory_all_reduce(parts.host, *parts.window);
}

std::unique_ptr<Collectives> make_hierarchical(const AllReduceParts& parts) {
  return make_hierarchical_all_reduce(parts.world, group_of(parts),
                                      parts.site.groups_in_memory ? parts.window : nullptr, parts.wire,
                                      parts.rounding, parts.link);
}

std::unique_ptr<Collectives> make_mpi(const AllReduceParts& parts) {
  auto sums = is_scaled(parts.wire) ? make_scaled_all_reduce(parts.world, parts.wire, *parts.rounding)
                                    : make_mpi_all_reduce(parts.world, parts.wire, parts.site.order);
  return make_slowed_all_reduce(parts.world, std::move(sums), parts.link, parts.wire, parts.site.order);
}

std::string why_not(const AllReduceKind& kind, const AllReduceSite& site) {
  const std::string key = cat("strategy.all_reduce = \"", kind.word, "\"");
  if (kind.on_gpus() && !site.no_nccl.empty()) return cat(key, " ", site.no_nccl);
  if (kind.memory == SumsIn::one_host && site.hosts > 1)
    return cat(key, " needs all workers on one host; these run on ", site.hosts,
               ": use \"auto\", \"hierarchical\" or \"mpi\"");
  if (site.link.is_on() && (kind.on_gpus() || kind.memory == SumsIn::one_host))
    return cat(key,
               " and run.emulate_link exclude each other: its values take no link; use \"mpi\", or with ",
               "strategy.ranks_per_group \"hierarchical\"");
  if (site.link.is_on() && kind.groups != Groups::none && site.group_count() == 1)
    return cat(key,
               " sends nothing over the link of run.emulate_link, since all workers are in one group: give "
               "strategy.ranks_per_group, the ranks of an emulated host, or use \"mpi\"");
  if (is_scaled(site.wire) && !kind.carries(site.wire))
    return cat(key, " cannot send values as strategy.wire = \"", name(site.wire),
               "\": use \"auto\", \"hierarchical\" or \"mpi\"");
  if (site.order == SumOrder::tree && kind.tree == KeepsTree::never)
    return cat(key,
               " and run.reproducible exclude each other: it adds in an order of its own; use \"mpi\" or "
               "\"auto\"");
  if (site.order == SumOrder::tree && kind.tree == KeepsTree::in_subtrees &&
      !groups_are_subtrees(site.groups))
    return cat(key,
               " and run.reproducible exclude each other with these groups: they must be consecutive "
               "ranks, a power of two of them (mpirun --map-by slot, strategy.ranks_per_group), to be "
               "parts of the one tree; or use \"mpi\" or \"auto\"");
  if (kind.groups == Groups::of_equal_size && !groups_are_equal(site.groups))
    return cat(key,
               " needs groups of one size: start as many ranks on each host, give a "
               "strategy.ranks_per_group that divides the ",
               site.ranks, " workers, or use \"nccl\"");
  if (!kind.several_communicators && site.communicators > 1)
    return cat(key, " takes one communicator: set strategy.communicators = 1");
  return "";
}

bool needs_window(const AllReduceKind& kind, const AllReduceSite& site) {
  return kind.memory == SumsIn::one_host ||
         (kind.memory == SumsIn::any_host && kind.groups != Groups::none && site.groups_in_memory);
}

std::vector<const AllReduceKind*> worth_measuring(const AllReduceSite& site) {
  std::vector<const AllReduceKind*> kinds;
  for (const AllReduceKind& kind : all_reduce_kinds) {
    if (!kinds.empty() && kind.memory != kinds.front()->memory) break;
    if (kind.worth_measuring != nullptr && kind.worth_measuring(site) && why_not(kind, site).empty())
      kinds.push_back(&kind);
  }
  return kinds;
}

std::vector<const AllReduceKind*> possible_all_reduces(const AllReduceSite& site) {
  std::vector<const AllReduceKind*> kinds;
  for (const AllReduceKind& kind : all_reduce_kinds)
    if (why_not(kind, site).empty() && (kind.groups == Groups::none || site.group_count() > 1))
      kinds.push_back(&kind);
  return kinds;
}

std::string describe(const AllReduceKind& kind, const AllReduceSite& site) {
  std::string text(kind.word);
  if (kind.groups != Groups::none) text += cat(" in ", site.group_count(), " groups");
  if (site.wire != Wire::float32 && kind.carries(site.wire)) text += cat(", ", name(site.wire));
  return text;
}

}  // namespace flotilla::mpi
