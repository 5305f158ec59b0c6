// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mpi/core/communicator.hpp"
#include "mpi/core/roles.hpp"

namespace flotilla::mpi {

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
