// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "mpi/core/topology.hpp"

namespace flotilla::mpi {

/// The group of each rank, numbered from 0. ranks_per_group = 0: one group per host. Otherwise the ranks,
/// ordered by host and then by their number on it, are cut into groups of that many; the last may be smaller.
/// @throws UserError if ranks_per_group is negative or larger than the number of ranks.
std::vector<int> cut_groups(const std::vector<Place>& places, int ranks_per_group);

/// Whether sums over the groups' members, added up over the groups, are those of one tree over all ranks
/// (sum_arrays.hpp): every group is the next 2ᵏ ranks, the last may be smaller.
bool groups_are_subtrees(const std::vector<int>& groups);

bool groups_are_equal(const std::vector<int>& groups);  ///< Whether all have the same number of ranks.

/// Whether no group has ranks of two hosts.
bool groups_stay_on_hosts(const std::vector<Place>& places, const std::vector<int>& groups);

}  // namespace flotilla::mpi
