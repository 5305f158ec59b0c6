// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// The host and processors of one rank.
struct Place {
  int rank = 0;
  std::string host{};
  int host_index = 0;       ///< Hosts numbered in the order of their lowest rank.
  int local_rank = 0;       ///< Index among the ranks of the host.
  int cores = 0;            ///< Processors this rank may run on (its affinity mask).
  int cores_shared_by = 1;  ///< Ranks of the host with an overlapping mask, this one included.
  int host_cores = 0;       ///< Processors of the host that it could use; 0: unknown, as are the next two.
  int sockets = 0;          ///< Sockets of the host.
  int nodes = 0;            ///< NUMA nodes of the host.
  int gpus = 0;             ///< GPUs that the host's driver lists.
  double quota = 0.0;       ///< Processors' time that the control group allows; 0: no limit.
  int quota_shared_by = 1;  ///< Ranks of the host under that limit, this one included.
  bool yields = true;       ///< Yields its processor while it waits inside MPI, or that is unknown.
};

std::string host_name();  ///< Name of this process's host, as MPI knows it.

/// Collective. One entry per rank, the same on every rank.
std::vector<Place> find_topology(const Communicator& world);

/// Collective. Whether Open MPI's copies from process to process could reach the wrong one, because ranks of
/// a host see different process ids, as in containers of their own: long messages would arrive damaged.
/// @returns empty, or, equal on every rank, which host it is, and remedies
std::string unsafe_process_ids(const Communicator& world);

int hosts(const std::vector<Place>& places);
std::vector<std::string> host_names(const std::vector<Place>& places);  ///< Host name of every rank.

/// Threads for a rank when the deck says 0: its cores ÷ the ranks on them, no more than its share of the
/// control group's time, at least 1.
int default_threads(const Place& place);

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
