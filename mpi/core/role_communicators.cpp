// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/role_communicators.hpp"

#include <utility>

#include "kernels/error.hpp"

namespace flotilla::mpi {

namespace {

const RoleEntry& entry_of(const RoleTable& table, const Communicator& world) {
  require(static_cast<int>(table.entries.size()) == world.size(), "roles of ", table.entries.size(),
          " ranks for ", world.size());
  return table.entries[static_cast<std::size_t>(world.rank())];
}

}  // namespace

RoleCommunicators::RoleCommunicators(const Communicator& world, RoleTable table)
    : table_(std::move(table)),
      all_(world.collective_clone()),
      same_role_(world.split(static_cast<int>(entry_of(table_, world).role))) {}

const RoleEntry& RoleCommunicators::mine() const {
  return table_.entries[static_cast<std::size_t>(all_.rank())];
}

}  // namespace flotilla::mpi
