// SPDX-License-Identifier: Apache-2.0
#include "src/commands/with_servers.hpp"

#include <variant>

#include "kernels/error.hpp"
#include "mpi/core/role_communicators.hpp"
#include "mpi/core/shared_memory_room.hpp"
#include "src/observe/print.hpp"
#include "src/parameter_server/server/serve.hpp"

namespace flotilla {

namespace {

/// Collective. Lets servers and workers of a host do without shared memory where they have none.
Config fit_to_shared_memory(Config config, const mpi::Communicator& world) {
  bool& shares = std::get<ServerConfig>(config.strategy).shared_memory;
  if (!shares) return config;
  const std::string missing = mpi::missing_shared_memory(world, 1, "server.shared_memory = false");
  shares = missing.empty();
  if (!shares && world.is_root())
    print_error_line("flotilla: warning: server.shared_memory: not used, because " + missing);
  return config;
}

}  // namespace

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

int with_servers(const Config& deck, const mpi::Communicator& world, FailureHandler& failure,
                 mpi::Watchdog& watchdog,
                 const std::function<int(const mpi::Communicator& workers, ServerLink* servers)>& work) {
  if (deck.server() == nullptr) return work(world, nullptr);
  const Config config = fit_to_shared_memory(deck, world);
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
