// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"

namespace flotilla::mpi {

enum class Role { worker, server };

std::string_view word_of(Role role);  ///< "worker", "server"

/// The ways to assign roles to ranks.
enum class RoleKind {
  collective,   ///< All ranks are workers.
  symmetric,    ///< Even ranks are servers, odd ranks workers: one server next to each worker.
  ratio,        ///< `servers` ranks, spread over the hosts, the first of each; the others are workers.
  user_defined  ///< As listed.
};

struct RoleOptions {
  RoleKind kind = RoleKind::collective;
  int servers = 0;             ///< ratio: roles.servers
  std::string server_ranks{};  ///< user_defined, roles.server_ranks: "0, 4-7"
  std::string worker_ranks{};  ///< user_defined, roles.worker_ranks: "1, 3"; empty: all others
};

/// The role of one rank.
struct RoleEntry {
  int rank = 0;
  std::string host{};
  int host_index = 0;
  Role role = Role::worker;
  int index = 0;  ///< Index among the ranks of its role, in the order of the ranks.
  friend bool operator==(const RoleEntry&, const RoleEntry&) = default;
};

/// The roles of all ranks: one entry per rank, in order.
struct RoleTable {
  std::vector<RoleEntry> entries;

  int count(Role role) const;
  std::vector<int> ranks(Role role) const;  ///< The ranks with a role, by index.
  friend bool operator==(const RoleTable&, const RoleTable&) = default;
};

/// A pure function, with equal results on every rank. With servers there is at least one rank of each role.
/// @param places one per rank, as find_topology() returns them
/// @throws UserError naming the key, what is wrong and the remedy
RoleTable assign_roles(const RoleOptions& options, const std::vector<Place>& places);

/// The table as text: a line of headings, then one for each rank.
/// @param devices the device of each rank, for a last column; empty: none
std::vector<std::string> lines_of(const RoleTable& table, const std::vector<std::string>& devices = {});

/// The first ranks of pairs (server 2 i, worker 2 i + 1) that are on two hosts, so that their messages cross
/// the network.
std::vector<int> pairs_apart(const RoleTable& table);

/// A communicator for all ranks and one for those of this rank's role, with barriers and reductions of their
/// own. After the start, nothing collective belongs on all().
class RoleCommunicators {
 public:
  /// Collective over `world`. `table` is the same on every rank.
  RoleCommunicators(const Communicator& world, RoleTable table);

  const RoleTable& table() const { return table_; }
  const RoleEntry& mine() const;
  bool is_server() const { return mine().role == Role::server; }
  const Communicator& all() const { return all_; }
  const Communicator& same_role() const { return same_role_; }  ///< Its ranks are the indices of the role.

 private:
  RoleTable table_;
  Communicator all_;
  Communicator same_role_;
};

}  // namespace flotilla::mpi
