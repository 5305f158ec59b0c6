// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/groups.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "kernels/error.hpp"

namespace flotilla::mpi {

std::vector<int> cut_groups(const std::vector<Place>& places, int ranks_per_group) {
  if (ranks_per_group < 0 || ranks_per_group > static_cast<int>(places.size()))
    throw UserError(cat("strategy.ranks_per_group (--ranks-per-group) is ", ranks_per_group,
                        ", but there are ", places.size(), places.size() == 1 ? " worker" : " workers",
                        "; give a number from 1 to that, or 0 for a group per host"));
  std::vector<int> groups(places.size());
  if (ranks_per_group == 0) {
    std::ranges::transform(places, groups.begin(), &Place::host_index);
    return groups;
  }
  std::vector<std::tuple<int, int, std::size_t>> order;
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    order.emplace_back(places[rank].host_index, places[rank].local_rank, rank);
  std::ranges::sort(order);
  for (std::size_t at = 0; at < order.size(); ++at)
    groups[std::get<2>(order[at])] = static_cast<int>(at) / ranks_per_group;
  return groups;
}

bool groups_are_subtrees(const std::vector<int>& groups) {
  const auto size = static_cast<std::size_t>(std::ranges::count(groups, groups.front()));
  const bool alone = size == groups.size();
  for (std::size_t rank = 0; rank < groups.size(); ++rank)
    if (groups[rank] != static_cast<int>(rank / size)) return false;
  return alone || std::has_single_bit(size);
}

bool groups_are_equal(const std::vector<int>& groups) {
  const auto size = std::ranges::count(groups, groups.front());
  return std::ranges::all_of(groups, [&](int group) { return std::ranges::count(groups, group) == size; });
}

bool groups_stay_on_hosts(const std::vector<Place>& places, const std::vector<int>& groups) {
  std::map<int, int> host_of;
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    if (host_of.emplace(groups[rank], places[rank].host_index).first->second != places[rank].host_index)
      return false;
  return true;
}

}  // namespace flotilla::mpi
