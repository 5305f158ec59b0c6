// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/roles.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/deck.hpp"
#include "src/job/failure.hpp"
#include "src/parameter_server/worker/server_link.hpp"

namespace flotilla {

/// The watchdog of the job: while it exists, a rank that hangs ends the job. Its destructor waits for all
/// ranks, after an AgreedFailure as well; while another exception is being thrown it does nothing.
class JobWatchdog {
 public:
  /// Collective over all ranks of the job. All arguments must outlive this.
  JobWatchdog(const LoadedDeck& deck, const mpi::Communicator& world, FailureHandler& failure);
  JobWatchdog(const JobWatchdog&) = delete;
  JobWatchdog& operator=(const JobWatchdog&) = delete;
  /// Collective. Adds to an AgreedFailure that is being thrown the place of the key that it names first.
  ~JobWatchdog();

  const std::vector<mpi::Place>& places() const { return places_; }  ///< Places of all ranks of the job
  mpi::Watchdog& watchdog() { return watchdog_; }

 private:
  const LoadedDeck& deck_;
  const mpi::Communicator& world_;
  std::vector<mpi::Place> places_;
  mpi::Watchdog watchdog_;
};

/// The roles of the ranks: all are workers where the configuration has no servers.
/// @param places of all ranks of the job @throws UserError where the roles do not fit them
mpi::RoleTable roles_of(const Config& config, const std::vector<mpi::Place>& places);

/// The roles of the job's ranks, and on a worker its connection to the parameter servers, where there are
/// any. On a worker the destructor releases the servers, with the exit code or with the AgreedFailure that is
/// being thrown; while another exception is being thrown it does nothing.
class JobRoles {
 public:
  /// Collective over all ranks of the job. All arguments must outlive this.
  /// @throws AgreedFailure where the roles do not fit the ranks
  JobRoles(const Config& deck, const mpi::Communicator& world, FailureHandler& failure,
           mpi::Watchdog& watchdog);
  JobRoles(const JobRoles&) = delete;
  JobRoles& operator=(const JobRoles&) = delete;
  ~JobRoles();

  bool is_server() const { return roles_ && roles_->is_server(); }
  /// On a server: serves until the workers let it go. @returns the exit code of the workers
  /// @throws AgreedFailure if one ends the workers
  int serve();
  const mpi::Communicator& workers() const { return roles_ ? roles_->same_role() : world_; }
  ServerLink* servers() { return servers_ ? &*servers_ : nullptr; }  ///< Null: there are none
  void set_exit_code(int code) { exit_code_ = code; }  ///< On a worker: what serve() returns on the servers

 private:
  const mpi::Communicator& world_;
  FailureHandler& failure_;
  mpi::Watchdog& watchdog_;
  std::optional<Config> config_;  ///< With servers: the deck's, without what the machines lack
  std::vector<mpi::Place> places_;
  std::optional<mpi::RoleCommunicators> roles_;
  std::optional<ServerLink> servers_;
  int exit_code_ = exit_done;
};

}  // namespace flotilla
