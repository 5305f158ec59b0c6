// SPDX-License-Identifier: Apache-2.0
#include "src/commands/with_servers.hpp"

#include "kernels/error.hpp"
#include "mpi/core/role_communicators.hpp"
#include "src/parameter_server/server/serve.hpp"

namespace flotilla {

mpi::RoleTable roles_of(const Config& config, const std::vector<mpi::Place>& places) {
  if (config.server() == nullptr) return mpi::assign_roles({}, places);
  const RolesConfig& roles = config.roles;
  mpi::RoleOptions options{.kind = mpi::RoleKind::symmetric,
                           .servers = static_cast<int>(roles.servers),
                           .server_ranks = roles.server_ranks,
                           .worker_ranks = roles.worker_ranks};
  if (roles.kind == RolesKind::ratio) options.kind = mpi::RoleKind::ratio;
  if (roles.kind == RolesKind::user_defined) options.kind = mpi::RoleKind::user_defined;
  return mpi::assign_roles(options, places);
}

int with_servers(const Config& config, const mpi::Communicator& world, FailureHandler& failure,
                 mpi::Watchdog& watchdog,
                 const std::function<int(const mpi::Communicator& workers, ServerLink* servers)>& work) {
  if (config.server() == nullptr) return work(world, nullptr);
  watchdog.beat("giving the ranks their roles", -1);
  const std::vector<mpi::Place> places = mpi::find_topology(world);
  mpi::RoleTable table;
  throw_alike([&] { table = roles_of(config, places); });
  const mpi::RoleCommunicators roles(world, table);
  if (roles.is_server()) return serve(roles, config, places, failure, watchdog);
  ServerLink servers(roles, config, places);
  try {
    const int exit_code = work(roles.same_role(), &servers);
    servers.close(exit_code, "");
    return exit_code;
  } catch (const AgreedFailure& error) {
    servers.close(error.exit_code, error.what());
    throw;
  }
}

}  // namespace flotilla
