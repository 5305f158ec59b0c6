// SPDX-License-Identifier: Apache-2.0
#include "src/commands/job_scopes.hpp"

#include <signal.h>

#include <exception>
#include <memory>
#include <string>
#include <variant>

#include "kernels/error.hpp"
#include "mpi/core/collective_log.hpp"
#include "mpi/core/host_lines.hpp"
#include "mpi/core/shared_memory.hpp"
#include "mpi/watchdog/roll_call.hpp"
#include "src/job/stop_request.hpp"
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

/// Collective. The places of the ranks, once collective calls are checked as the deck says.
std::vector<mpi::Place> topology_with_checks(const RunConfig& run, const mpi::Communicator& world) {
  mpi::set_collective_checks(run.check_collectives);
  return mpi::find_topology(world);
}

}  // namespace

JobWatchdog::JobWatchdog(const LoadedDeck& deck, const mpi::Communicator& world, FailureHandler& failure)
    : deck_(deck),
      world_(world),
      places_(topology_with_checks(deck.config.run, world)),
      watchdog_(
          deck.config.run.watchdog_s,
          [&failure](const std::string& text) { failure.end_job(text, exit_library_error); },
          std::make_unique<mpi::RollCall>(world, mpi::host_names(places_))) {
  watchdog_.report_lost_ranks([] { return stop_signal() == SIGTERM; },
                              [&failure](const std::string& text) { failure.say_unless_told(text); });
  watchdog_.leave_when_reported([&failure] { return failure.told(); });
}

JobWatchdog::~JobWatchdog() {
  AgreedFailure* const agreed = AgreedFailure::being_thrown();
  if (agreed == nullptr && std::uncaught_exceptions() > 0) return;
  // All leave together: one that is alone here is named, with where the others are.
  watchdog_.beat("waiting for the end of the run", -1);
  world_.patient_barrier();
  watchdog_.stop();
  if (agreed != nullptr) agreed->rephrase(deck_.placed(agreed->what()));
}

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

JobRoles::JobRoles(const Config& deck, const mpi::Communicator& world, FailureHandler& failure,
                   mpi::Watchdog& watchdog)
    : world_(world), failure_(failure), watchdog_(watchdog) {
  if (deck.server() == nullptr) return;
  config_ = fit_to_shared_memory(deck, world);
  watchdog.beat("giving the ranks their roles", -1);
  places_ = mpi::find_topology(world);
  mpi::RoleTable table;
  throw_alike([&] { table = roles_of(*config_, places_); });
  roles_.emplace(world, table);
  if (!roles_->is_server()) servers_.emplace(*roles_, *config_, places_);
}

JobRoles::~JobRoles() {
  if (!servers_) return;
  if (const AgreedFailure* agreed = AgreedFailure::being_thrown())
    servers_->close(agreed->exit_code, agreed->what());
  else if (std::uncaught_exceptions() == 0)
    servers_->close(exit_code_, "");
}

int JobRoles::serve() {
  return flotilla::serve(*roles_, *config_, places_, failure_, watchdog_);
}

}  // namespace flotilla
