// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mpi/core/topology.hpp"

namespace flotilla::mpi {

enum class Role { worker, server };

std::string_view word_of(Role role);  ///< "worker", "server"

/// Who is what.
enum class RoleKind {
  collective,   ///< All work.
  symmetric,    ///< Even ranks serve, odd ranks work: one server beside each worker.
  ratio,        ///< So many servers, spread over the hosts, the first ranks of each; the others work.
  user_defined  ///< As listed.
};

struct RoleOptions {
  RoleKind kind = RoleKind::collective;
  int servers = 0;             ///< ratio: roles.servers
  std::string server_ranks{};  ///< user_defined, roles.server_ranks: "0, 4-7"
  std::string worker_ranks{};  ///< user_defined, roles.worker_ranks: the same; empty: those that do not serve
};

/// What one rank is.
struct RoleEntry {
  int rank = 0;
  std::string host{};
  int host_index = 0;
  Role role = Role::worker;
  int index = 0;  ///< Among those of its role, in the order of the ranks.
  friend bool operator==(const RoleEntry&, const RoleEntry&) = default;
};

/// What every rank is: one entry per rank, in order.
struct RoleTable {
  std::vector<RoleEntry> entries;

  int count(Role role) const;
  std::vector<int> ranks(Role role) const;  ///< Of those of a role, by index.
  friend bool operator==(const RoleTable&, const RoleTable&) = default;
};

/// A pure function: every rank finds the same. With servers, there is at least one of each role.
/// @param places one per rank, as find_topology() returns them
/// @throws UserError naming the key, what is wrong and the remedy
RoleTable assign_roles(const RoleOptions& options, const std::vector<Place>& places);

/// The table for people: a line of headings, then one for each rank.
/// @param devices what each rank computes with, for a last column; empty: none
std::vector<std::string> lines_of(const RoleTable& table, const std::vector<std::string>& devices = {});

/// The first ranks of pairs (server 2 i, worker 2 i + 1) that lie on two hosts, where what they exchange
/// crosses the network.
std::vector<int> pairs_apart(const RoleTable& table);

}  // namespace flotilla::mpi
