// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/start/gpu_binding.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/config.hpp"
#include "src/parameter_server/worker/server_link.hpp"
#include "src/strategy/communicator_exchange.hpp"
#include "src/train/monitor/straggler_monitor.hpp"

namespace flotilla {

/// The workers that take a step together with this one, where these are not all: its group, or this one
/// alone.
struct StepGroup {
  mpi::Communicator workers;
  mpi::Communicator host;  ///< The workers of the group on this host
  std::vector<mpi::Place> places;
  ReductionConfig reduction;  ///< The deck's, adapted to the group
  /// The group of each of all workers; empty: each takes its steps alone
  std::vector<int> groups;
};

/// Collective. Empty without local SGD, and where that begins with steps of all workers together.
/// @throws UserError (on every rank) if these workers cannot form the deck's groups
std::optional<StepGroup> make_step_group(const Config& config, const mpi::Communicator& world,
                                         const std::vector<mpi::Place>& places);

/// Collective over the workers. Their places, with their ranks in the job; servers on the same host share
/// cores.
std::vector<mpi::Place> places_of_workers(const mpi::Communicator& workers, const ServerLink* servers);

/// The first part of a run: the workers, where they are, and the device on which this one computes.
struct Machine {
  /// Collective over `workers`. @throws AgreedFailure for the user's mistakes, on every rank
  /// @param parameter_servers null without parameter servers
  Machine(const Config& config, const mpi::Communicator& workers, mpi::Watchdog& watchdog,
          ServerLink* parameter_servers);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  const mpi::Place& own_place() const { return places[static_cast<std::size_t>(workers.rank())]; }

  const mpi::Communicator& workers;
  mpi::Watchdog& watchdog;              ///< The watchdog of the job
  ServerLink* servers;                  ///< Null: all ranks are workers
  std::vector<mpi::Place> places;       ///< Places of the workers, with their ranks in the job
  mpi::GpuBinding gpus;                 ///< The workers' GPUs; empty: they compute on processors
  Precision precision;                  ///< Precision of the device, the same on all workers
  mpi::Communicator host;               ///< The workers of this host
  std::optional<StepGroup> step_group;  ///< Empty: all workers step together
  std::unique_ptr<Device> device;
  std::unique_ptr<CommunicatorExchange> exchange;  ///< Null: no synchronised batch norm
  std::optional<EmulatedStraggler> straggler;      ///< run.emulate_straggler; never empty
};

}  // namespace flotilla
