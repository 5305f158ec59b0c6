// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>

#include "src/train/machine.hpp"
#include "src/train/run_data.hpp"
#include "src/train/run_model.hpp"
#include "src/train/synchronisation.hpp"

namespace flotilla {

/// The communicator of the workers, and what ends the job where they fail or hang.
struct RunWorkers {
  const mpi::Communicator& workers;
  ServerLink* servers;  ///< Null without parameter servers
  FailureHandler& failure;
  mpi::Watchdog& watchdog;
};

/// The four parts of a worker, each made from those before it and destroyed in reverse order.
struct RunParts {
  /// Collective over the workers. @throws AgreedFailure for the user's mistakes, on every rank
  /// @param deck gets what it leaves to the data, and must outlive the object
  /// @param saved_choices, communication_sinks as Synchronisation takes them
  RunParts(Config& deck, const RunWorkers& on, const std::map<std::string, std::string>& saved_choices,
           std::span<trace::Sink* const> communication_sinks = {})
      : config(deck),
        machine(deck, on.workers, on.watchdog, on.servers),
        data(deck, machine, saved_choices),
        model(deck, machine, data),
        sync(machine, data, model, on.failure, saved_choices, communication_sinks) {}
  RunParts(const RunParts&) = delete;
  RunParts& operator=(const RunParts&) = delete;

  const Config& config;
  Machine machine;
  RunData data;
  RunModel model;
  Synchronisation sync;
};

}  // namespace flotilla
